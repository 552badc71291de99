"""Who may read the live page: host names and the password."""

import base64
import socket
from pathlib import Path

import cam_programs as cam
import page_readers as readers
import pytest
from live_page import open_browser, shown_frame, text_of, wait_until

SYNTHETIC = ["--source", "synthetic"]
TOKEN = "f3a90c5d12b74e86"
OWN_NAME = socket.gethostname().split(".")[0]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return cam.make_bundle(tmp_path_factory.mktemp("bundle"))


@pytest.fixture
def token_file(tmp_path):
    path = tmp_path / "page-token"
    path.write_text(f"{TOKEN}\n")
    path.chmod(0o600)
    return path


def request(host="127.0.0.1", path="/", **fields):
    lines = [f"GET {path} HTTP/1.1", f"Host: {host}"]
    lines += [f"{name}: {value}" for name, value in fields.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


@pytest.mark.parametrize("address", ["127.0.0.1:0", "0.0.0.0:0"])
def test_only_addresses_and_own_and_allowed_names_are_served(bundle, address):
    options = [*SYNTHETIC, "--http", address, "--allow-host", "door.example"]
    served = ["127.0.0.1:8080", "192.168.7.9", "[::1]:8080", "[fe80::1]", "localhost", "LocalHost."]
    served += [OWN_NAME, f"{OWN_NAME}.local:80", "door.example", "DOOR.example:443"]
    foreign = [
        "evil.example",
        "door.example.evil.example",
        "xdoor.example",
        "localhost.evil.example",
    ]
    foreign += ["127.0.0.1.evil.example", "127.0.0.1:x", "[::1", "[::1]x", "0x7f.1", "."]
    with cam.serving(bundle, options) as (url, _):
        assert [name for name in served if readers.status_of(url, request(name)) != 200] == []
        assert [name for name in foreign if readers.status_of(url, request(name)) != 403] == []
        with readers.connect(url, request("evil.example")) as made:
            answer = made.recv(4096).decode()
    assert "this page has another host name; use its address or localhost" in answer
    assert "To allow a name, start edgepipe-cam with --allow-host NAME." in answer


def test_the_password_is_asked_for_everything(bundle, token_file):
    def basic(text):
        return {"Authorization": f"Basic {base64.b64encode(text.encode()).decode()}"}

    options = [*SYNTHETIC, "--http-token-file", str(token_file)]
    with cam.serving(bundle, options) as (url, process):
        assert TOKEN.encode() not in Path(f"/proc/{process.pid}/cmdline").read_bytes()
        for path in ("/", "/events", "/picture/0", "/page.js", "/none"):
            assert readers.status_of(url, request(path=path)) == 401
        right = [basic(f":{TOKEN}"), basic(f"any:{TOKEN}"), {"Authorization": f"Bearer {TOKEN}"}]
        wrong = [basic(TOKEN), basic(f":{TOKEN}x"), basic(f":{TOKEN[:-1]}"), basic(":"), basic("")]
        wrong += [{"Authorization": text} for text in ("", "Basic", "Basic =", "Basic ====", "x")]
        wrong += [{"Authorization": f"Digest {TOKEN}"}, {"Authorization": f"Bearer {TOKEN[::-1]}"}]
        assert [given for given in right if readers.status_of(url, request(**given)) != 200] == []
        assert [given for given in wrong if readers.status_of(url, request(**given)) != 401] == []
        # A page of another site must not learn whether the password is known.
        assert readers.status_of(url, request("evil.example", **right[0])) == 403
        with readers.connect(url, request()) as made:
            answer = made.recv(4096).decode()
    assert '\r\nWWW-Authenticate: Basic realm="edgepipe"\r\n' in answer
    assert "the page needs its password; the user name does not matter\n" in answer


def test_a_browser_with_the_password_shows_the_page(bundle, token_file):
    options = [*SYNTHETIC, "--http-token-file", str(token_file)]
    with open_browser() as browser, cam.serving(bundle, options) as (url, _):
        browser.get(url)
        assert browser.find_elements("id", "picture") == []
        browser.get(url.replace("//", f"//viewer:{TOKEN}@"))
        wait_until(browser, lambda: shown_frame(browser) > 3)
        assert text_of(browser, "connection") == "live"


@pytest.mark.parametrize(
    ("content", "mode", "text"),
    [
        ("short\n", 0o600, "page-token: found a token of 5 characters, expected 16 to 256"),
        ("x" * 300, 0o600, "expected 16 to 256"),
        ("\n", 0o600, "page-token: the first line is empty"),
        ("sixteen letters!", 0o600, "page-token: a token has only letters, digits and - . _ ~"),
        (TOKEN, 0o644, "page-token: every user of this machine can read or write this secret"),
    ],
)
def test_an_unsafe_password_file_is_an_error(bundle, token_file, content, mode, text):
    token_file.write_text(content)
    token_file.chmod(mode)
    done = cam.run(bundle, [*SYNTHETIC, "--http-token-file", str(token_file)])
    said = done.stderr.decode()
    assert done.returncode == 1
    assert text in said
    chmod = f"hint: run `chmod o= {token_file}`"
    make = "hint: make one with `openssl rand -hex 16 > FILE`, readable by its owner only"
    assert (chmod if mode == 0o644 else make) in said


def test_a_missing_password_file_is_an_error(bundle, tmp_path):
    done = cam.run(bundle, [*SYNTHETIC, "--http-token-file", str(tmp_path / "none")])
    assert done.returncode == 1
    assert "none: No such file or directory" in done.stderr.decode()
    done = cam.run(bundle, [*SYNTHETIC, "--http-token-file", str(tmp_path)])
    assert f"{tmp_path}: not a regular file" in done.stderr.decode()


def test_an_allowed_host_is_a_host_name(bundle):
    done = cam.run(bundle, [*SYNTHETIC, "--allow-host", "http://door"])
    assert done.returncode == 1
    assert "'http://door' is not a host name, expected e.g. door.example" in done.stderr.decode()


def test_a_page_for_the_whole_network_without_a_password_gives_a_warning(bundle):
    once = [*SYNTHETIC, "--frames", "1", "--http", "0.0.0.0:0"]
    said = cam.run(bundle, once).stderr.decode()
    assert "/ without a password: anyone who can reach it may read it\n" in said
