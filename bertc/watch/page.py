"""``bertc watch --open``: the page of a run, served to browsers of this machine alone."""

import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HOME = "127.0.0.1"
REST = 100
"""Times as long as a page takes to make, until it is made anew: a hundredth of a core."""
LEAST_SECONDS = 10.0
ASK_MILLISECONDS = 5000
RELOADING = """<script>
(async () => {
  const version = async () => (await fetch("/version", { cache: "no-store" })).text();
  const first = "VERSION";
  setInterval(async () => {
    if (document.visibilityState !== "visible") return;
    try { if (await version() !== first) location.reload(); } catch { /* no one serves it now */ }
  }, MILLISECONDS);
})();
</script>"""
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'unsafe-inline' blob:; style-src 'unsafe-inline'; "
        "img-src data: blob:; connect-src 'self' data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class LivePage:
    """The page as it was last made; ``standing`` is cheap, and changes when the page would."""

    def __init__(self, make: Callable[[], str], standing: Callable[[], str]) -> None:
        self._make, self._standing = make, standing
        self._lock = threading.Lock()
        self._content, self._version, self._rest_until = b"", "", 0.0

    def version(self) -> str:
        """The standing that a page would show now; that of the last page while it rests."""
        with self._lock:
            return self._next()

    def content(self) -> bytes:
        """The page in UTF-8, made anew if it is out of date."""
        with self._lock:
            version = self._next()
            if version != self._version:
                begun = time.monotonic()
                page, script = self._make(), RELOADING.replace("VERSION", version)
                script = script.replace("MILLISECONDS", str(ASK_MILLISECONDS))
                self._content = page.replace("</body>", f"{script}</body>").encode()
                took = time.monotonic() - begun
                self._version = version
                self._rest_until = time.monotonic() + max(LEAST_SECONDS, REST * took)
            return self._content

    def _next(self) -> str:
        resting = self._version and time.monotonic() < self._rest_until
        return self._version if resting else self._standing()


class PageServer(ThreadingHTTPServer):
    """Serves a page at ``/`` and its version at ``/version``, and nothing else.

    It listens on this machine's own address alone, and answers under that name and ``localhost``
    only: a page of another site whose name was made to lead here is refused.
    """

    daemon_threads = True

    def __init__(self, page: LivePage, port: int = 0) -> None:
        """Listen on ``port``, or on any that is free."""
        super().__init__((HOME, port), _Handler)
        self.page = page

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"http://{HOME}:{self.server_port}/"

    @property
    def names(self) -> tuple[str, ...]:
        """The values of ``Host`` that are answered."""
        return f"{HOME}:{self.server_port}", f"localhost:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    server_version, sys_version = "bertc", ""
    timeout = 30.0

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
        """Answer a request."""
        if self.headers.get_all("Host") not in [[name] for name in self.server.names]:
            self._answer(HTTPStatus.MISDIRECTED_REQUEST, "text/plain", b"another host's name\n")
            return
        answers = {
            "/": ("text/html", self.server.page.content),
            "/version": ("text/plain", lambda: self.server.page.version().encode()),
        }
        if self.path not in answers:
            self._answer(HTTPStatus.NOT_FOUND, "text/plain", b"there is only the page at /\n")
            return
        kind, make = answers[self.path]
        try:
            content = make()
        except Exception as error:
            text = f"the page cannot be made now: {error}\n".encode(errors="replace")
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", text)
            return
        self._answer(HTTPStatus.OK, kind, content)

    def _answer(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing: the terminal shows the run."""
