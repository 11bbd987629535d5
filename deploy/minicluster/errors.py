"""Errors of the mini cluster; every message says what was expected, what was found and what to do."""


class MiniClusterError(Exception):
    """Base of all errors that the command line reports in one line."""


class SettingsError(MiniClusterError):
    """`cluster.yaml` has a wrong or unknown value; the message names the key path."""


class StartError(MiniClusterError):
    """A process ended early or did not become healthy in time; the message quotes its log."""


class JobError(MiniClusterError):
    """A job could not be submitted or ended differently from what the workload expects."""


class RecordingError(MiniClusterError):
    """A recording is incomplete, unsafe to unpack or does not show its ground truth."""
