"""The viewer: a page in the browser that shows tables with up to 100,000 columns."""
