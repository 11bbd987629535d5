"""Lines that the client of a MapReduce job prints while it waits for it (`hadoop jar`, `yarn jar`, Hadoop streaming).

Written after the texts of Job, JobClient, StreamJob, JobSubmitter and YarnClientImpl of Hadoop 0.20 to 3.4. log4j's
pattern differs: with or without a date, a thread, the logger's full name; schedulers (Airflow, container runtimes) put
a time of their own before each line. The client's output is mixed with that of the program that waits: whatever that
prints never decides where another value ends, as every pattern is anchored and bounded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

from collectors.logs.times import parse_time

MARKS = (
    b"Running job: job_",
    b"% reduce ",
    b"%  reduce ",
    b"Task Id : attempt_",
    b"Job job_",
    b"Job complete: job_",
    b"Job Failed: ",
    b"Counters: ",
    b"StreamJob",
    b"Submitted application application_",
    b"The url to track the job: ",
    b"Cleaning up the staging area ",
    b"Job started: ",
    b"Job ended: ",
    b"The job took ",
)
"""A line without one of these tells nothing by itself."""

MAX_LINE_CHARS = 4_000
"""Of a line so many are looked at: what is longer is text that a job's failure, or a program, brought along."""

_LEVEL = r"(?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL)"
LINE = re.compile(
    r"(?P<before>.{0,250}?)"
    r"(?P<stamp>(?:\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[,.]\d{3}|\d\d/\d\d/\d\d \d\d:\d\d:\d\d) )?"
    rf" {{0,4}}(?:\[(?P<thread>[^\[\]]{{0,100}})\] {{1,4}})?{_LEVEL} {{1,4}}"
    r"(?:\[(?P<behind>[^\[\]]{0,100})\] {1,4})?"
    r"(?:[\w$]{1,60}\.){0,12}(?P<logger>Job|JobClient|StreamJob|JobSubmitter|YarnClientImpl)"
    r"(?::| {1,2}(?:\([^()]{0,200}(?:\(\d{1,7}\))?\) )?-) ?(?P<message>.*)"
)
"""A record of the client's; what stands `before` its stamp is of the scheduler that captured it."""
ANY_RECORD = re.compile(
    rf"(?:\[[^\[\]]{{0,100}}\] {{1,4}})?{_LEVEL} {{1,4}}(?:\[[^\[\]]{{0,100}}\] {{1,4}})?[\w.$]{{1,300}}(?::| )"
)
"""How a record of anybody begins where log4j prints no date."""
WRAPPED = re.compile(
    r"(?:\[\d{4}-\d\d-\d\d[^\[\]]{5,30}\] \{[^{}]{1,200}\} (?:[A-Z]{4,8} )?- "
    r"|\d{4}-\d\d-\d\dT[\d:.,]{8,20}(?:Z|[+-]\d\d:?\d\d)? (?:std(?:out|err) [FP] )?)"
)
"""What a scheduler puts before every line."""
WRAPPED_TIME = re.compile(
    r"[\[(<]?(\d{4})-(\d\d)-(\d\d)(?:[T ]|, )(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(?: ?(Z|UTC|[+-]\d\d:?\d\d))?"
)

_JOB = r"job_(?:local\d{0,19}|\d{1,19})_\d{1,19}"
_WHOLE = r"(?![\w])"
RUNNING = re.compile(rf"Running job: ({_JOB}){_WHOLE}")
PROGRESS = re.compile(r" ?map (\d{1,3})% {1,2}reduce (\d{1,3})%\s{0,10}$", re.ASCII)
COMPLETED = re.compile(rf"Job ({_JOB}) completed successfully")
FAILED = re.compile(rf"Job ({_JOB}) failed with state (\w{{1,20}}) due to: ?(.*)", re.ASCII)
COMPLETE = re.compile(rf"Job complete: ({_JOB}){_WHOLE}")
"""Of Hadoop 1: how it ended stands in no line, or in a later one."""
FAILED_1 = re.compile(r"Job Failed: ?(.*)")
NOT_SUCCESSFUL = re.compile(r"(?i:Job not successful)(?:!|\. Error: ?(.*))")
"""Of streaming."""
OUTPUT = re.compile(r"Output(?: directory)?: ")
"""Of streaming, of jobs that succeeded alone."""
LAUNCH_FAILED = re.compile(r"(?i:Error launching job) ?(?:: ?|, ?)(.*)")
ATTEMPT = re.compile(
    r"Task Id : (attempt_(?:local\d{0,19}|\d{1,19})_\d{1,19}_[mr]_\d{1,19}_\d{1,9}), Status : (\w{1,20})", re.ASCII
)
COUNTERS = re.compile(r"Counters: (\d{1,6})\s{0,10}$", re.ASCII)
SUBMITTED = re.compile(r"Submitted application (application_\d{1,19}_\d{1,19})(?!\w)")
URL = re.compile(r"The url to track the job: (\S{1,1000})")
APPLICATION_IN_URL = re.compile(r".{0,300}?/(application_\d{1,19}_\d{1,19})(?!\w)")
CLEANING = re.compile(rf"Cleaning up the staging area (.{{0,1000}}?/\.staging/({_JOB}))\s{{0,10}}$")
USER_OF_STAGING = re.compile(r"(?:[^/]{0,255}/){0,30}([^/]{1,255})/\.staging/job_\w{1,60}$")

RUN = re.compile(r"Job (started|ended): (.{1,60})")
TOOK = re.compile(r"The job took (\d{1,12}) seconds")
JAVA_DATE = re.compile(
    r"[A-Z][a-z]{2} (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) (\d\d) (\d\d):(\d\d):(\d\d) (\S{1,10}) (\d{4})",
    re.ASCII,
)
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

Times = tuple[int, int]
"""t_lo_ms and t_hi_ms, equal where milliseconds are printed."""


@dataclass(frozen=True, slots=True)
class ClientLine:
    """A record of the client's."""

    times: Times | None
    """None: the line has no date."""
    thread: str
    """Empty where log4j does not print it."""
    logger: str
    message: str
    """With the spaces that it begins with."""


def client_line(text: str, zone: tzinfo) -> ClientLine | None:
    """The client's record that this line begins; None for any other line."""
    if "Job" not in text and "YarnClientImpl" not in text:
        return None  # most lines, as the counters
    found = LINE.match(text[:MAX_LINE_CHARS])
    if found is None:
        return None
    times = None
    if found["stamp"]:
        stamp = parse_time(found["stamp"], zone)
        times = None if stamp is None else stamp[:2]
    if times is None:
        times = wrapped_time(found["before"], zone)
    return ClientLine(times, found["thread"] or found["behind"] or "", found["logger"], found["message"])


def wrapped_time(text: str, zone: tzinfo) -> Times | None:
    """The time that a scheduler put before a line; with its offset from UTC where it prints one."""
    found = WRAPPED_TIME.match(text)
    if found is None:
        return None
    year, month, day, hour, minute, second, fraction, offset = found.groups()
    stamp = f"{year}-{month}-{day}T{hour}:{minute}:{second}"
    read = _second(stamp + ("+00:00" if offset in ("Z", "UTC") else offset or ""), zone)
    if read is None or fraction is None:
        return read and read[1]
    return (read[1][0] + int(fraction.ljust(3, "0")[:3]),) * 2


def java_date(text: str, zone: tzinfo) -> tuple[Times, str | None] | None:
    """(times, the zone's name where it is not that of `zone` then) of what Date.toString prints.

    The name of the zone is ambiguous (CST, IST), so its hour is read in `zone` as the log's lines are, but for UTC.
    """
    found = JAVA_DATE.match(text)
    if found is None:
        return None
    month, day, hour, minute, second, name, year = found.groups()
    stamp = f"{year}-{MONTHS.index(month) + 1:02}-{day}T{hour}:{minute}:{second}"
    read = _second(stamp, UTC if name in ("UTC", "GMT") else zone)
    if read is None:
        return None
    moment, times = read
    try:
        of_zone = moment.astimezone(zone).tzname() or ""
    except OverflowError:  # the first or the last day of the calendar is none in that zone
        return None
    is_other = name.isalpha() and of_zone.isalpha() and name != of_zone and {name, of_zone} != {"GMT", "UTC"}
    return times, name if is_other else None


def _second(stamp: str, zone: tzinfo) -> tuple[datetime, Times] | None:
    """The second that is written so (ISO 8601), in `zone` where it has no offset; None: there is none such."""
    try:
        moment = datetime.fromisoformat(stamp)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=zone)
        t_ms = round(moment.timestamp()) * 1000
    except (ValueError, OverflowError):
        return None
    return moment, (t_ms, t_ms + 999)


def is_record(text: str, zone: tzinfo) -> bool:
    """Whether any program's record begins here, so that the text of the one before has ended."""
    return parse_time(text[:60], zone) is not None or ANY_RECORD.match(text[:MAX_LINE_CHARS]) is not None


def unwrapped(text: str) -> str:
    """Without what a scheduler put before the line."""
    found = WRAPPED.match(text)
    return text[found.end() :] if found else text


__all__ = ["MARKS", "ClientLine", "Times", "client_line", "is_record", "java_date", "unwrapped", "wrapped_time"]
