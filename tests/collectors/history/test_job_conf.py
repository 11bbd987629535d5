"""Chosen settings of a configuration, and nothing else of it, whatever stands there."""

from __future__ import annotations

import json
from xml.sax.saxutils import escape

import pytest

from collectors.base import ProblemLog
from collectors.history import job_conf
from collectors.history.job_conf import job_of_name, read_settings, settings_event
from tests.conftest import SHARED

SECRET = "hunter2hunter2"


def conf(**properties: str) -> bytes:
    body = "".join(
        f"<property><name>{name.replace('__', '-').replace('_', '.')}</name><value>{escape(value)}</value></property>"
        for name, value in properties.items()
    )
    return f"<configuration>{body}</configuration>".encode()


def read(data: bytes) -> tuple[dict[str, str] | None, list[str]]:
    problems = ProblemLog("job_history")
    settings = read_settings(data, "/x/job_1_1_conf.xml", problems)
    return settings, [f"{one.kind}: {one.message}" for one in problems.drain()]


def test_chosen_settings_alone() -> None:
    settings, problems = read(
        conf(mapreduce_map_memory_mb="3072", dfs_blocksize="128m", fs_s3a_secret_key=SECRET, mapreduce_job_name="n")
    )
    assert settings == {"mapreduce.map.memory.mb": "3072", "dfs.blocksize": "128m"}
    assert problems == []


@pytest.mark.parametrize(
    "properties",
    [
        {"mapreduce_map_java_opts": f"-Dpassword={SECRET} -Xmx1g"},
        {"mapreduce_map_memory_mb": SECRET},
        {"mapreduce_map_memory_mb": "${fs.s3a.secret.key}", "fs_s3a_secret_key": "123456789"},
        {"mapreduce_map_memory_mb": "${a}", "a": "${b.password}", "b_password": "123456789"},
        {"mapreduce_job_cache_files": f"s3a://AKIA:{SECRET}@bucket/lib/a.jar?sig={SECRET}#{SECRET}"},
        {"mapreduce_job_cache_files": f"s3a://AKIA:{SECRET}@bucket"},
        {"mapreduce_job_cache_files": f"hdfs://nn/{SECRET}@b"},
        {"mapreduce_job_cache_files": f"s3a://AKIA:x/{SECRET}?y@bucket/a.jar"},
        {"mapreduce_job_cache_files": f"s3a://AKIA:x/{SECRET}@bucket"},
        {"mapreduce_job_cache_files": f"s3a://AKIA:x/{SECRET},y@bucket/a.jar"},
        {"mapreduce_job_cache_files": f"https://h/a.jar?sig=x,y/{SECRET}"},
        {"mapreduce_job_cache_files": f"https://h/a.jar;jsessionid={SECRET}"},
        {"mapreduce_map_output_compress": SECRET},
        {"mapreduce_map_output_compress_codec": f"Codec {SECRET}"},
    ],
)
def test_secrets_are_neither_kept_nor_told(properties: dict[str, str]) -> None:
    settings, problems = read(conf(**properties))
    told = json.dumps([settings, problems])
    assert SECRET not in told
    assert "123456789" not in told
    assert "AKIA" not in told


def test_what_is_kept_of_values() -> None:
    settings, _ = read(
        conf(
            mapreduce_map_java_opts="-Xmx1g -server -Xmx2048m", mapreduce_reduce_java_opts="-server",
            mapreduce_job_cache_files="hdfs://nn:8020/lib/a.jar#a,/b c.txt,relative.zip",
            mapreduce_job_cache_files_filesizes="1,2,3", mapreduce_reduce_memory_mb="${my.size}", my_size="4096",
            mapreduce_task_io_sort_mb="${nowhere}",
        )
    )  # fmt: skip
    assert settings == {
        "mapreduce.map.java.opts": "-Xmx2048m",
        "mapreduce.job.cache.files": "a.jar,b c.txt,relative.zip",
        "mapreduce.job.cache.files.filesizes": "1,2,3",
        "mapreduce.reduce.memory.mb": "4096",
    }


def test_the_last_of_two_values_counts() -> None:
    twice = conf(mapreduce_map_memory_mb="1").replace(b"</configuration>", b"") + conf(mapreduce_map_memory_mb="2")[15:]
    assert read(twice)[0] == {"mapreduce.map.memory.mb": "2"}


LAUGHS = b"""<?xml version="1.0"?><!DOCTYPE c [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>
<configuration><property><name>mapreduce.map.memory.mb</name><value>&b;</value></property></configuration>"""
OUTSIDE = b"""<?xml version="1.0"?><!DOCTYPE c [<!ENTITY x SYSTEM "file:///etc/passwd">]>
<configuration><property><name>mapreduce.map.memory.mb</name><value>&x;</value></property></configuration>"""


@pytest.mark.parametrize(
    "data",
    [
        LAUGHS, OUTSIDE, b"", b"\0" * 100, b"<configuration><property>", b"<other/>", b"<html><configuration/></html>",
        b"<?xml version='1.0' encoding='nonsense'?><configuration/>", b"\xff\xfe<\0", b"{}",
    ],
)  # fmt: skip
def test_hostile_and_broken_documents(data: bytes) -> None:
    settings, problems = read(data)
    assert settings is None
    assert len(problems) == 1


def test_deep_and_long_documents() -> None:
    deep = b"<configuration>" + b"<a>" * 100_000 + b"</a>" * 100_000 + b"</configuration>"
    assert read(deep)[0] == {}
    assert read(conf(mapreduce_map_memory_mb="1" * 300_000))[0] == {}
    settings, [problem] = read(b"<configuration>" + b"<a/>" * (job_conf.MAX_ELEMENTS + 1) + b"</configuration>")
    assert settings is None
    assert "elements" in problem
    settings, [problem] = read(b" " * (job_conf.MAX_BYTES + 1))
    assert settings is None
    assert problem.startswith("oversized")


@pytest.mark.parametrize(
    ("name", "job"),
    [
        ("job_1526555215992_0001_conf.xml", "job_1526555215992_0001"),
        ("host_1385000000000_job_201311192236_3583_conf.xml", "job_201311192236_3583"),
        ("job_1_1_conf.xml.tmp", None),
        ("xjob_1_1_conf.xml", None),
        ("conf.xml", None),
    ],
)
def test_the_job_stands_in_the_name(name: str, job: str | None) -> None:
    assert job_of_name(name) == job


@pytest.mark.parametrize(
    ("job_id", "start_ms"),
    [
        ("job_1526555215992_0001", 1_526_555_215_992),
        ("job_201311192236_3583", 1_384_900_560_000),
        ("job_999999999999_1", 999_999_999_999),
        ("job_99999999999999999999_1", 1),
        ("job_0_1", 1),
        ("job_100001010000_1", 1),
    ],
)
def test_settings_stand_at_the_start_of_the_cluster(job_id: str, start_ms: int) -> None:
    [row] = settings_event(job_id, {"a": "b"}, 3, "/x").take_batch().rows()
    assert (row["t_lo_ms"], row["t_hi_ms"], row["settings"]) == (start_ms, start_ms, '{"a":"b"}')


@pytest.mark.external
def test_real_configurations() -> None:
    for path in sorted((SHARED / "data").glob("jhist/**/*_conf.xml")):
        settings, problems = read(path.read_bytes())
        assert settings is not None
        assert problems == [], path
        assert int(settings["mapreduce.map.memory.mb"]) > 0, path
