"""Who a holder is: one process, as the store and the audit name it."""

from __future__ import annotations

from dataclasses import dataclass

_MAX_FIELD = 200


@dataclass(frozen=True, slots=True)
class Instance:
    """One process that takes latches.

    Attributes:
        id: random, 32 hexadecimal digits, never reused; the capability to prove life or death by.
        host: the host's name, as it calls itself.
        pid: the process id in its own namespace; for people only, nothing is decided by it.
        started: when the process started, seconds since the Unix epoch; for people only.
        role: the platform's name of the instance (site, pod, replica), or "".
    """

    id: str
    host: str
    pid: int
    started: float
    role: str = ""

    @property
    def label(self) -> str:
        """A short text for people: ``host:pid`` or ``role@host:pid``."""
        place = f"{self.host}:{self.pid}"
        return f"{self.role}@{place}" if self.role else place


def role_of(environment: dict[str, str]) -> str:
    """What the platform calls this instance, from its environment variables, or "".

    Sources: App Service and Functions (``WEBSITE_SITE_NAME``, ``WEBSITE_INSTANCE_ID``), Container Apps
    (``CONTAINER_APP_REPLICA_NAME``, ``CONTAINER_APP_JOB_EXECUTION_NAME``), Kubernetes (``POD_NAME``, or
    ``HOSTNAME`` where ``KUBERNETES_SERVICE_HOST`` is set).
    """
    site = environment.get("WEBSITE_SITE_NAME", "")
    if site:
        worker = environment.get("WEBSITE_INSTANCE_ID", "")[:8]
        role = f"{site}/{worker}" if worker else site
    else:
        role = (
            environment.get("CONTAINER_APP_REPLICA_NAME")
            or environment.get("CONTAINER_APP_JOB_EXECUTION_NAME")
            or environment.get("POD_NAME")
            or (environment.get("HOSTNAME", "") if environment.get("KUBERNETES_SERVICE_HOST") else "")
        )
    return role[:_MAX_FIELD]


def scales_out(environment: dict[str, str]) -> str | None:
    """Names the platform if it runs replicas that do not share a disk, else None."""
    if environment.get("FUNCTIONS_WORKER_RUNTIME"):
        return "Azure Functions"
    if environment.get("WEBSITE_SITE_NAME"):
        return "App Service"
    if environment.get("CONTAINER_APP_NAME") or environment.get("CONTAINER_APP_JOB_NAME"):
        return "Container Apps"
    if environment.get("KUBERNETES_SERVICE_HOST"):
        return "Kubernetes"
    return None
