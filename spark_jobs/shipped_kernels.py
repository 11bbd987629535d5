"""Compiled kernels that are shipped to executors: found by what they are, not by where their sources lie.

Numba keeps compiled code below a folder named after the sources' own folder, which on YARN differs in every container.
The folder of app and sources that `engine` chooses carries a hash of all kernel sources, versions and the processor
already, so one fixed name below it is enough. Numba is told by its setting NUMBA_CACHE_LOCATOR_CLASSES =
spark_jobs.shipped_kernels.ShippedKernels; deploy/spark/pack.py packs the folder under this name.
"""

from __future__ import annotations

from pathlib import Path

from numba.core.caching import UserProvidedCacheLocator


class ShippedKernels(UserProvidedCacheLocator):
    """As Numba's own locator for a given folder, but for the name below it."""

    @classmethod
    def get_suitable_cache_subpath(cls, py_file: str) -> str:
        """The name of the sources' folder alone, without where it lies."""
        return Path(py_file).resolve().parent.name


__all__ = ["ShippedKernels"]
