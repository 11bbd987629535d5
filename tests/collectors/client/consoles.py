"""Consoles of clients, written after the texts of Hadoop's programs: Job (2, 3), JobClient (0.20, 1), StreamJob."""

from __future__ import annotations

from collections.abc import Sequence

JOB, APPLICATION = "job_1700000000000_0007", "application_1700000000000_0007"
OTHER = "job_1700000000000_0008"
URL = f"http://rm:8088/proxy/{APPLICATION}/"
OLD_JOB = "job_201001020304_0007"
DAY_MS = 1_699_920_000_000
"""2023-11-14 00:00 UTC."""

Line = tuple[int, str, str] | str
"""Seconds of the day, short logger and message of a record; or what is printed without log4j."""


def attempt(kind: str = "m", task: int = 0, number: int = 0, job: str = JOB) -> str:
    return f"attempt{job.removeprefix('job')}_{kind}_{task:06}_{number}"


FAILURE = (
    "Error: java.io.IOException: Spill failed",
    "\tat org.apache.hadoop.mapred.MapTask$MapOutputBuffer.checkSpillException(MapTask.java:1562)",
    "[2023-11-14 00:00:12.345]Container killed on request. Exit code is 143",
    "",
)
COUNTERS = (
    "\tFile System Counters",
    "\t\tFILE: Number of bytes read=14086",
    "\tJob Counters ",
    "\t\tLaunched map tasks=3",
    "\t\tFailed map tasks=1",
    "\t\tTotal time spent by all maps in occupied slots (ms)=10080",
    "\tMap-Reduce Framework",
    "\t\tMap input records=616167",
    "\t\tSpilled Records=256",
    "\t\tCPU time spent (ms)=8660",
    "\torg.example.Wc$Counters",
    "\t\ta=b=-3",
)
"""Eight counters, one of them with an equals sign in its name."""

HADOOP3: tuple[Line, ...] = (
    (1, "client.RMProxy", "Connecting to ResourceManager at rm/10.1.1.2:8032"),
    "Job started: Tue Nov 14 00:00:02 UTC 2023",
    (3, "mapreduce.JobSubmitter", "number of splits:2"),
    (3, "mapreduce.JobSubmitter", f"Submitting tokens for job: {JOB}"),
    (4, "impl.YarnClientImpl", f"Submitted application {APPLICATION}"),
    (4, "mapreduce.Job", f"The url to track the job: {URL}"),
    (5, "mapreduce.Job", f"Running job: {JOB}"),
    (9, "mapreduce.Job", f"Job {JOB} running in uber mode : false"),
    (9, "mapreduce.Job", " map 0% reduce 0%"),
    (13, "mapreduce.Job", f"Task Id : {attempt()}, Status : FAILED"),
    *FAILURE,
    (15, "mapreduce.Job", " map 50% reduce 0%"),
    (20, "mapreduce.Job", " map 100% reduce 100%"),
    (21, "mapreduce.Job", f"Job {JOB} completed successfully"),
    (21, "mapreduce.Job", "Counters: 8"),
    *COUNTERS,
    "Job ended: Tue Nov 14 00:00:22 UTC 2023",
    "The job took 20 seconds.",
)

HADOOP1: tuple[Line, ...] = (
    (1, "mapred.FileInputFormat", "Total input paths to process : 1"),
    (2, "mapred.JobClient", f"Running job: {OLD_JOB}"),
    (3, "mapred.JobClient", " map 0% reduce 0%"),
    (9, "mapred.JobClient", f"Task Id : {attempt(job=OLD_JOB)}, Status : FAILED"),
    "java.lang.RuntimeException: subprocess failed with code 1",
    "",
    f"{attempt(job=OLD_JOB)}: log4j:WARN No appenders could be found",
    (12, "mapred.JobClient", " map 35% reduce 0%"),
    (30, "mapred.JobClient", f"Job complete: {OLD_JOB}"),
    (30, "mapred.JobClient", "Counters: 3"),
    (30, "mapred.JobClient", "  Job Counters "),
    (30, "mapred.JobClient", "    Launched map tasks=4"),
    (30, "mapred.JobClient", "    Failed map tasks=1"),
    (30, "mapred.JobClient", "  Map-Reduce Framework"),
    (30, "mapred.JobClient", "    Map input records=0"),
    (31, "mapred.JobClient", "Job Failed: # of failed Map Tasks exceeded allowed limit. FailedCount: 1."),
    'Exception in thread "main" java.io.IOException: Job failed!',
)

STREAMING: tuple[Line, ...] = (
    (1, "streaming.StreamJob", "getLocalDirs(): [/tmp/hadoop/mapred/local]"),
    (1, "streaming.StreamJob", f"Running job: {OLD_JOB}"),
    (1, "streaming.StreamJob", "To kill this job, run:"),
    (2, "streaming.StreamJob", " map 0%  reduce 0%"),
    (9, "streaming.StreamJob", " map 100%  reduce 100%"),
    (10, "streaming.StreamJob", f"Job complete: {OLD_JOB}"),
    (10, "streaming.StreamJob", "Output: /out"),
)


def stamp(second: int, *, short: bool = False) -> str:
    clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
    return f"23/11/14 {clock}" if short else f"2023-11-14 {clock},000"


def console(lines: Sequence[Line], form: str = "{date} {level} {logger}: {message}", end: str = "\n") -> str:
    """The lines as log4j and those who capture them write them; `date` and `short` are two forms of the time."""
    printed = []
    for line in lines:
        if isinstance(line, str):
            printed.append(line)
            continue
        second, logger, message = line
        full = f"org.apache.hadoop.{logger}"
        printed.append(
            form.format(
                date=stamp(second), short=stamp(second, short=True), level="INFO", logger=logger, full=full,
                message=message,
            )
        )  # fmt: skip
    return end.join([*printed, ""])


def captured(text: str, prefix: str) -> str:
    """Each line as a scheduler keeps it."""
    return "".join(f"{prefix}{line}\n" for line in text.splitlines())
