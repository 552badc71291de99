"""Convert the exceptions of TVM's RPC client to edgepipe's errors."""

from __future__ import annotations

from edgepipe.errors import RpcError
from edgepipe.runtime.library import status_failure


def rpc_error(cause: BaseException) -> RpcError:
    """Return the error to raise for an exception of TVM's client, with the status's hint if any."""
    if isinstance(cause, RpcError):
        return cause
    found = status_failure(str(cause))
    return RpcError(f"RPC: {last_line(cause)}", hint=found.hint if found else None)


def last_line(cause: BaseException) -> str:
    """Return the message in TVM's text: that of a status, otherwise the last line."""
    if found := status_failure(str(cause)):
        return str(found)
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    return lines[-1] if lines else type(cause).__name__
