"""What people see of objects: sizes, types and names as short text, and summaries in notebooks.

prefixes  Grouping thousands of names by common prefixes or suffixes
summary   A short description of an object with columns, as text and as HTML
text      Sizes, counts and types as short text
"""
