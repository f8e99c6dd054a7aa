"""Credentials in URIs: they work, and nothing that is printed shows them."""

import json
import pickle
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict
from io import StringIO
from urllib.parse import quote

import pyarrow as pa
import pytest
from servers import HOST, FileStore, Server, no_settings, s3_uris

import fastmosaic as fm
from fastmosaic.cli import main
from fastmosaic.dataset.discovery import discover
from fastmosaic.dataset.fileset import FileSet
from fastmosaic.storage import retry
from fastmosaic.storage.secrets import redacted, without_secrets
from fastmosaic.storage.sink import open_sink
from fastmosaic.storage.source import open_source
from fastmosaic.storage.staging import Staging

SECRET = "wJalrXUtnFEMIK7MDENG"
TABLE = pa.table({"id": [1, 2, 3]})


@pytest.fixture(autouse=True)
def no_hurry(monkeypatch):
    monkeypatch.setattr(retry, "RETRY_PAUSES", (0.01, 0.04))


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("s3://AKIA:SECRET@bucket/a", "s3://***@bucket/a"),
        ("s3a://AKIA:SECRET@bucket/a?region=eu", "s3a://***@bucket/a?region=eu"),
        ("s3://SECRET@bucket/a", "s3://***@bucket/a"),
        ("s3://AKIA:half/SECRET@bucket/a@b", "s3://***@b"),  # an unescaped slash: too much
        ("s3://AKIA:half%2FSECRET@bucket/a@b", "s3://***@bucket/a@b"),
        ("s3://AKIA%3ASECRET%40bucket/a", "s3://***@bucket/a"),
        ("S3://AKIA:SECRET@bucket/a", "S3://***@bucket/a"),
        ("s3:/AKIA:SECRET@bucket/a", "s3:/***@bucket/a"),
        (
            "s3://bucket/a?access_key=SECRET&secret_key=SECRET&session_token=SECRET&region=eu",
            "s3://bucket/a?access_key=***&secret_key=***&session_token=***&region=eu",
        ),
        (
            "s3://k:SECRET@b/a?scheme=http&endpoint_override=127.0.0.1%3A9000",
            "s3://***@b/a?scheme=http&endpoint_override=127.0.0.1%3A9000",
        ),
        ("s3://b/a?endpoint_override=u%3ASECRET%40host", "s3://b/a?endpoint_override=***"),
        ("gs://SECRET@bucket/a", "gs://***@bucket/a"),
        ("gs://anonymous@bucket/a", "gs://anonymous@bucket/a"),
        ("abfs://box@acc.dfs.core.windows.net/a", "abfs://box@acc.dfs.core.windows.net/a"),
        (
            "abfss://box:SECRET@acc.dfs.core.windows.net/a",
            "abfss://box:***@acc.dfs.core.windows.net/a",
        ),
        (
            "abfs://:SECRET@acc.blob.core.windows.net/box",
            "abfs://***@acc.blob.core.windows.net/box",
        ),
        (
            "https://acc/box/a?sv=2020&se=2030&sig=SECRET%3D",
            "https://acc/box/a?sv=2020&se=2030&sig=***",
        ),
        ("https://user:SECRET@host:8080/a@1.0", "https://***@host:8080/a@1.0"),
        ("https://SECRET@host/a", "https://***@host/a"),
        ("http://host/a?SECRET", "http://host/a?***"),
        ("http://host/a?key=SECRET;password=SECRET", "http://host/a?key=***;password=***"),
        ("http://host/a#access_token=SECRET", "http://host/a#access_token=***"),
        (
            "https://b/a?X-Amz-Credential=SECRET&X-Amz-Date=2024&X-Amz-Signature=SECRET",
            "https://b/a?X-Amz-Credential=***&X-Amz-Date=2024&X-Amz-Signature=***",
        ),
        (
            "https://b/a?X-Amz-Security-Token=SECRET&AWSAccessKeyId=SECRET",
            "https://b/a?X-Amz-Security-Token=***&AWSAccessKeyId=***",
        ),
        ("hdfs://user@name:8020/a?replication=2", "hdfs://user@name:8020/a?replication=2"),
        ("hdfs://user:SECRET@name:8020/a", "hdfs://user:***@name:8020/a"),
        ("sftp://user:SECRET@host/a", "sftp://user:***@host/a"),
        ("simplecache::https://user:SECRET@host/a", "simplecache::https://***@host/a"),
        (
            "zip://a.mosaic::http://host/z.zip?token=SECRET",
            "zip://a.mosaic::http://host/z.zip?token=***",
        ),
        (
            "'s3://k:SECRET@b/a', \"http://h/b?sig=SECRET\"",
            "'s3://***@b/a', \"http://h/b?sig=***\"",
        ),
        ("404, url='http://h/a?sig=SECRET')", "404, url='http://h/a?sig=***')"),
    ],
)
def test_what_is_shown_of_a_uri(uri, shown):
    assert redacted(uri) == shown
    assert redacted(redacted(uri)) == shown


@pytest.mark.parametrize(
    "text",
    [
        "/home/me@work/a.mosaic",
        "C:/data/x:y@z",
        "data/k=a?b=c/x.mosaic",
        "s3://bucket/day=1/part-?.mosaic",
        "s3://bucket/part-[0-9]*.mosaic",
        "http://[::1]:8080/a@b",
        "http://host:80/a@b",
        "file:///home/me@work/x",
        "memory://a/b",
        "column 'a:/b' is int64",
    ],
)
def test_what_is_no_secret_stays(text):
    assert redacted(text) == text


def test_errors_lose_secrets_with_all_that_a_traceback_prints():
    class Odd(Exception):
        def __str__(self):
            return f"odd http://u:{SECRET}@host"

    cause = FileNotFoundError(2, "No such file", f"http://u:{SECRET}@host/a")
    cause.add_note(f"while reading http://host/?sig={SECRET}")
    cause.__cause__ = Odd()
    error = ValueError(f"s3://k:{SECRET}@b", 3)
    error.__cause__ = cause
    cleaned = without_secrets(error)
    assert cleaned is error
    assert cleaned.args == ("s3://***@b", 3)
    assert isinstance(cleaned.__cause__, FileNotFoundError)
    assert cleaned.__cause__.filename == "http://***@host/a"
    printed = "".join(traceback.format_exception(cleaned))
    assert SECRET not in printed
    assert "while reading http://host/?sig=***" in printed
    assert "odd http://***@host" in printed


# ---- everything that prints a place


def printed(act):
    """What a traceback of the error of `act` prints."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - of whatever kind
        act()
    error = caught.value
    return "".join(traceback.format_exception(error)) + repr(error) + str(vars(error))


def command(*arguments):
    """The status of a command, and all that it prints."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            status = main(list(arguments))
        except SystemExit as exit:
            status = exit.code
    return status, out.getvalue() + err.getvalue()


@pytest.mark.parametrize("act", [fm.read_table, fm.MosaicDataset, fm.verify, fm.read_schema])
@pytest.mark.parametrize(
    "uri",
    [
        f"s3a://AKIA:{SECRET}@bucket/a.mosaic",
        f"s3://AKIA:a/{SECRET}@bucket/a.mosaic",
        f"s3://AKIA:{SECRET} x@bucket/a.mosaic",
        f"s3:/AKIA:{SECRET}@bucket/a.mosaic",
        f"s3://bucket/a.mosaic?nonsense={SECRET}",
        f"unknown://user:{SECRET}@host/a.mosaic",
        f"hdfs://user:{SECRET}@127.0.0.1:1/a.mosaic",
        f"http://user:{SECRET}@127.0.0.1:1/a.mosaic",
        f"http://127.0.0.1:1/a.mosaic?sig={SECRET}",
        f"memory://user:{SECRET}@host/a.mosaic",
        f"simplecache::http://user:{SECRET}@127.0.0.1:1/a.mosaic",
        f"ftp://user:{SECRET}@127.0.0.1:1/a.mosaic",
        f"nowhere://{SECRET}@x/a.mosaic",
    ],
)
def test_errors_of_any_uri(act, uri, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = printed(lambda: act(uri))
    assert SECRET not in text
    assert quote(SECRET) not in text
    if "nonsense" not in uri:
        assert SECRET not in printed(lambda: act("a.mosaic", filesystem=uri))
        assert SECRET not in printed(lambda: fm.write_table(TABLE, uri))
    if not uri.startswith(("s3:/A", "simplecache")):  # these are local paths
        assert SECRET not in printed(lambda: fm.write_dataset(TABLE, uri))


@pytest.fixture(scope="module")
def store():
    with no_settings(), s3_uris(SECRET) as uri_of:
        yield uri_of


def test_a_uri_with_credentials_works_and_hides_them(store):
    uri = store("one/a.mosaic")
    fm.write_table(TABLE, uri)
    with fm.MosaicFile(uri) as file:
        assert file.read() == TABLE
        assert repr(file).startswith("<MosaicFile s3://***@bucket/one/a.mosaic?scheme=http&")
        assert SECRET not in repr(file)
        with pickle.loads(pickle.dumps(file)) as again:
            assert again.read() == TABLE
    report = fm.verify(uri)
    assert report.ok
    assert SECRET not in repr(report) + json.dumps(asdict(report), default=str)
    assert SECRET not in open_source(uri).name
    sink = open_sink(uri)
    assert SECRET not in sink.name
    sink.abandon()


def test_datasets_hide_credentials(store):
    report = fm.write_dataset(TABLE, store("many"), partitioning=None, max_rows_per_file=2)
    assert SECRET not in repr(report) + repr(report.files) + str(report)
    assert [fm.read_table(file.path).num_rows for file in report.files] == [2, 1]
    for source in [store("many"), store("many/*"), [file.path for file in report.files]]:
        dataset = fm.MosaicDataset(source)
        assert dataset.to_table() == TABLE
        assert pickle.loads(pickle.dumps(dataset)).to_table() == TABLE
        assert len(dataset.files) == 2
        found = discover(source)
        assert SECRET not in repr(dataset) + repr(dataset.files) + repr(found)
        files = FileSet(source).files
        assert SECRET not in repr([file.name for file in files])
    staging = Staging.begin(store("more"))
    assert SECRET not in repr(staging)
    staging.abandon()


def test_errors_of_a_store_hide_credentials(store):
    fm.write_table(TABLE, store("errors/a.mosaic"))
    data = pa.table({"other": ["x"]})
    fm.write_table(data, store("errors/b.mosaic"))
    open_sink(store("errors/damaged/a.mosaic")).commit()
    for act in (
        lambda: fm.read_table(store("errors/none.mosaic")),
        lambda: fm.read_table(store("errors/none/*.mosaic")),
        lambda: fm.read_table(store("errors/damaged/a.mosaic")),
        lambda: fm.MosaicDataset(store("errors"), unify=False),
        lambda: fm.MosaicDataset([store("errors/a.mosaic")] * 2),
        lambda: fm.read_table(store("errors/a.mosaic"), columns=["none"]),
        lambda: fm.write_dataset(TABLE, store("errors")),
        lambda: fm.write_table(TABLE, store("x").replace("bucket/x", "missing-bucket/x")),
        lambda: fm.read_table("none", filesystem=store("errors")),
    ):
        assert SECRET not in printed(act)
    assert SECRET not in repr(fm.verify(store("errors/damaged/a.mosaic")))


def test_wrong_credentials_are_hidden_too(store):
    def refuse(method, path, headers, body):
        error = f"<Error><Code>SignatureDoesNotMatch</Code><Message>{path}</Message></Error>"
        return 403, {"Content-Length": str(len(error))}, error.encode()

    with Server(refuse).running() as server:
        port = store("").partition(f"{HOST}%3A")[2].partition("&")[0]
        uri = store("a.mosaic").replace(port, str(server.server_port))
        for act in (fm.read_table, fm.MosaicDataset, lambda uri: fm.write_table(TABLE, uri)):
            text = printed(lambda act=act: act(uri))
            assert "SIGNATURE_DOES_NOT_MATCH" in text or "ACCESS_DENIED" in text
            assert SECRET not in text
            assert "AKIA" not in text


def test_commands_hide_credentials(store, tmp_path):
    one = store("command/a.mosaic")
    fm.write_table(TABLE, one)
    csv = store("command/a.csv")
    for arguments, expected in [
        (["convert", one, csv, "--to", "csv"], 0),
        (["convert", one, csv, "--to", "csv", "--json", "--overwrite"], 0),
        (["convert", one, csv, "--to", "csv"], 2),
        (["convert", one, store("command/x.unknown")], 2),
        (["convert", one, store("command/parts/"), "--file-rows", "2"], 0),
        (["convert", one, store("command/parts/"), "--file-rows", "2"], 2),
        (["verify", "-v", one, store("none"), csv], 2),
        (["verify", "--json", one, store("none"), csv], 2),
        (["diff", one, store("command/parts/")], 0),
        (["diff", one, store("none")], 2),
        (["head", one, "--json"], 0),
        (["meta", csv], 2),
        (["meta", "--json", one, store("command/parts/*")], 0),
        (["pages", one, store("command/parts/*")], 0),
        (["buckets", one, "--json"], 0),
        (["schema", one, "--nonsense", one], 2),
        (["schema", one, "--json"], 0),
        (["nonsense", one], 2),
        ([one], 2),
    ]:
        status, text = command(*arguments)
        assert status == expected, text
        assert SECRET not in text, arguments


def test_web_pages_with_passwords_and_signatures():
    with Server(FileStore()).running() as web:
        sink = pa.BufferOutputStream()
        fm.write_table(TABLE, sink)
        web.backend.files["/d/a.mosaic"] = sink.getvalue().to_pybytes()
        base = f"http://me:{SECRET}=x@{web.address}"
        with fm.MosaicFile(f"{base}/d/a.mosaic") as file:
            assert file.read() == TABLE
            assert repr(file).startswith(f"<MosaicFile http://***@{web.address}/d/a.mosaic")
        for source in (f"{base}/d/", f"{base}/d/*.mosaic", [f"{base}/d/a.mosaic"]):
            dataset = fm.MosaicDataset(source)
            assert dataset.to_table() == TABLE  # without a partition key of the password
            assert dataset.files == [f"http://***@{web.address}/d/a.mosaic"]
            assert SECRET not in repr(discover(source))
        for path in ("/none", "/d/none.mosaic", "/none/", "/d/*.csv"):
            assert SECRET not in printed(lambda path=path: fm.read_table(base + path))
        for status in (401, 403, 500):
            web.inject("error", 100, status=status)
            web.inject("error", 100, status=status, method="HEAD")
            uri = f"{base}/d/a.mosaic?sig={SECRET}"
            assert SECRET not in printed(lambda: fm.read_table(uri))  # noqa: B023
            web.reset()


def test_files_whose_names_differ_in_secrets_only_stay_apart(tmp_path):
    with Server(FileStore()).running() as web:
        for number in (1, 2):
            web.backend.files[f"/get.csv?id={number}"] = f"x{number}\n{number}\n".encode()
        uris = [f"http://{web.address}/get.csv?id={number}" for number in (1, 2)]
        target = str(tmp_path / "both.mosaic")
        assert command("convert", "--from", "csv", *uris, target)[0] == 0
        assert fm.read_table(target).to_pylist() == [{"x1": 1, "x2": None}, {"x1": None, "x2": 2}]


def test_a_traceback_for_debugging_hides_credentials(store, monkeypatch):
    monkeypatch.setenv("FASTMOSAIC_DEBUG", "1")
    monkeypatch.setattr(sys, "argv", ["fastmosaic"])
    assert SECRET not in printed(lambda: main(["head", store("none.mosaic")]))
