"""The two ends of a job inside NVIDIA FLARE: messages are pushed, tasks are not used.

An engine job has a process at the coordinator and one at each party. The engine starts
`CoordinatorSide` and `PartySide` there; subclasses define what they do.
"""

import logging
import os
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, Thread
from time import monotonic, sleep
from typing import Any, Final

from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import FLContextKey, ReturnCode
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable, make_reply

from spinney.errors import SpinneyError
from spinney.transport.flare.channel import Send, transfer_seconds
from spinney.transport.flare.resident import Resident

_LOG: Final = logging.getLogger("spinney.engine")
_TOPIC: Final = "spinney"
_BODY: Final = "spinney"
_LOOK_EVERY: Final = 0.5  # seconds
_ORPHANED: Final = 75  # exit code: try again later
_SHORTEST: Final = 0.3  # seconds between two sends of a question, if one failed at once


class Abort(Exception):  # noqa: N818  somebody's wish, not an error
    """The engine job must end."""


@dataclass(frozen=True)
class Link:
    """The engine's facts about the current job."""

    job_id: str
    meta: Mapping[str, Any]
    folder: Path  # this process's own folder for the job


class CoordinatorSide(Controller):  # type: ignore[misc]
    """The coordinator's process of an engine job."""

    def __init__(self, reply_seconds: float = 15.0) -> None:
        super().__init__()
        end_with_parent()
        self._reply_seconds = reply_seconds

    @abstractmethod
    def conduct(self, link: Link, send: Send) -> None:
        """Run the job; an error raised here ends the engine job as failed."""

    def start_controller(self, fl_ctx: Any) -> None:
        """Nothing to prepare."""

    def stop_controller(self, fl_ctx: Any) -> None:
        """Nothing to clean up."""

    def control_flow(self, abort_signal: Any, fl_ctx: Any) -> None:
        """Run the job; called by the engine."""

        def send(targets: Sequence[str], data: bytes) -> Mapping[str, object]:
            if abort_signal.triggered:
                raise Abort
            return self._sent(targets, data, fl_ctx)

        try:
            self.conduct(_link(fl_ctx), send)
        except Abort:
            _LOG.info("The job was aborted.")
        except SpinneyError as error:
            _LOG.error("The job ended: %s", error)
            self.system_panic(str(error), fl_ctx)

    def _sent(self, targets: Sequence[str], data: bytes, fl_ctx: Any) -> Mapping[str, object]:
        begin = monotonic()
        request = Shareable()
        request[_BODY] = data
        replies = self._engine.send_aux_request(
            targets=list(targets),
            topic=_TOPIC,
            request=request,
            timeout=self._reply_seconds + transfer_seconds(len(data) * len(targets)),
            fl_ctx=fl_ctx,
            optional=True,
        )
        came = {
            name: reply.get(_BODY)
            for name, reply in (replies or {}).items()
            if name in targets and reply.get_return_code() == ReturnCode.OK
        }
        if len(came) < len(targets):
            sleep(max(0.0, _SHORTEST - (monotonic() - begin)))
        return came


class PartySide(Executor):  # type: ignore[misc]
    """A party's process of an engine job."""

    def __init__(self) -> None:
        super().__init__()
        end_with_parent()
        self._resident: Resident | None = None
        self._lock = Lock()

    @abstractmethod
    def begin(self, link: Link) -> Resident:
        """Return the object that answers this job's questions; called once, before the first."""

    def end(self) -> None:
        """Clean up; called when the job is over."""

    def handle_event(self, event_type: str, fl_ctx: Any) -> None:
        """Begin and end with the job; called by the engine."""
        if event_type == EventType.START_RUN:
            self._resident = self.begin(_link(fl_ctx))
            fl_ctx.get_engine().register_aux_message_handler(_TOPIC, self._answered)
        elif event_type == EventType.END_RUN and self._resident is not None:
            ended, self._resident = self._resident, None
            ended.close()
            self.end()

    def execute(self, task_name: str, shareable: Any, fl_ctx: Any, abort_signal: Any) -> Any:
        """Return an error: this job has no tasks."""
        del task_name, shareable, fl_ctx, abort_signal
        return make_reply(ReturnCode.TASK_UNKNOWN)

    def _answered(self, topic: str, request: Any, fl_ctx: Any) -> Any:
        del topic, fl_ctx
        resident = self._resident
        if resident is None:
            return make_reply(ReturnCode.SERVICE_UNAVAILABLE)
        reply = make_reply(ReturnCode.OK)
        reply[_BODY] = resident.answer(request.get(_BODY))
        return reply


def end_with_parent() -> None:
    """End this process soon after the engine's main process, however that one ended.

    The engine would wait until the process has cleaned up, and takes a zombie process for a living
    one. An orphan would keep the party's lock and block the next attempt.
    """
    Thread(target=_watch, args=[os.getppid()], name="spinney-orphan", daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent != 1:  # 1: the parent was gone before the first look
        sleep(_LOOK_EVERY)
    os._exit(_ORPHANED)


def _link(fl_ctx: Any) -> Link:
    job_id = fl_ctx.get_job_id()
    meta = fl_ctx.get_prop(FLContextKey.JOB_META) or {}
    return Link(job_id, dict(meta), Path(fl_ctx.get_workspace().get_run_dir(job_id)))
