"""edgepipe-cam reports to a real MQTT broker, as a real client sees it."""

import json
import queue
import re
import signal
import subprocess
import time
from contextlib import contextmanager

import cam_programs as cam
import needs
import paho.mqtt.client as mqtt
import ports
import pytest

PASSWORD = "Gx7secretQ"
LOGIN = "hint: write two lines: the user's name and the password"
SYNTHETIC = ["--source", "synthetic", "--rate", "50", "--headless", "--jsonl", "/dev/null"]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return cam.make_bundle(tmp_path_factory.mktemp("bundle"))


class Broker:
    """A mosquitto of its own; it can be stopped and started again on the same port."""

    def __init__(self, folder, *settings):
        self.port = ports.free_port()
        self._configuration = folder / "mosquitto.conf"
        self._configuration.write_text("\n".join([f"listener {self.port} 127.0.0.1", *settings]))
        self.start()

    def start(self):
        program = needs.installed("mosquitto", "mosquitto")
        self._process = subprocess.Popen(
            [program, "-c", self._configuration], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        for line in self._process.stdout:
            if b"running" in line:
                return
        raise AssertionError("mosquitto has ended")

    def stop(self):
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()


@pytest.fixture
def broker(tmp_path):
    started = Broker(tmp_path, "allow_anonymous true")
    yield started
    started.stop()


@contextmanager
def subscribed(broker, *topics, user=""):
    """Yield a function that waits for the next message of a topic, and returns it with its flag."""
    arrived = {topic: queue.SimpleQueue() for topic in topics}
    ready = queue.SimpleQueue()
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
    client.on_connect = lambda *_: client.subscribe([(topic, 1) for topic in topics])
    client.on_subscribe = lambda *_: ready.put(True)

    def keep(_client, _data, message):
        for topic, messages in arrived.items():
            if mqtt.topic_matches_sub(topic, message.topic):
                messages.put(message)

    client.on_message = keep
    if user:
        client.username_pw_set(user, PASSWORD)
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    ready.get(timeout=10)
    yield lambda topic: arrived[topic].get(timeout=20)
    client.disconnect()
    client.loop_stop()


@contextmanager
def running(bundle, broker, *options):
    address = f"127.0.0.1:{broker.port}"
    command = [needs.built("edgepipe-cam"), bundle, "--no-pin", *SYNTHETIC]
    command += ["--mqtt", address, "--mqtt-topic", "site/door", *options]
    process = subprocess.Popen([str(part) for part in command], stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_state_results_and_statistics_arrive(bundle, broker):
    with (
        subscribed(
            broker, "site/door/state", "site/door/result", "site/door/statistics"
        ) as next_of,
        running(bundle, broker) as process,
    ):
        assert next_of("site/door/state").payload == b"online"
        first, second = (json.loads(next_of("site/door/result").payload) for _ in range(2))
        assert second["frame"] > first["frame"]
        assert len(first["classes"]) == 3
        figures = json.loads(next_of("site/door/statistics").payload)
        assert (figures["network"], figures["pipeline"]["failed"]) == ("tiny", 0)
        process.send_signal(signal.SIGINT)
        assert next_of("site/door/state").payload == b"offline"
        assert process.wait(20) == 0


def test_results_are_no_more_than_asked_for(bundle, broker):
    with (
        subscribed(broker, "site/door/result") as next_of,
        running(bundle, broker, "--mqtt-rate", "5"),
    ):
        next_of("site/door/result")
        begin = time.monotonic()
        frames = [json.loads(next_of("site/door/result").payload)["frame"] for _ in range(5)]
        assert time.monotonic() - begin > 0.7
        assert frames[-1] - frames[0] >= 20  # the newest of 50 a second


def test_the_state_of_a_program_that_was_killed_is_offline_for_later_clients_too(bundle, broker):
    with subscribed(broker, "site/door/state") as next_of, running(bundle, broker) as process:
        assert next_of("site/door/state").payload == b"online"
        process.kill()
        assert next_of("site/door/state").payload == b"offline"
    with subscribed(broker, "site/door/state") as next_of:
        message = next_of("site/door/state")
        assert (message.payload, message.retain) == (b"offline", True)


def test_a_broker_that_returns_gets_reports_again(bundle, broker):
    with running(bundle, broker) as process:
        lines = iter(process.stderr.readline, "")
        assert next(line for line in lines if "MQTT: connected to" in line)
        broker.stop()
        assert next(line for line in lines if "tries to connect again" in line)
        broker.start()
        assert next(line for line in lines if "MQTT: connected to" in line)
        with subscribed(broker, "site/door/state", "site/door/result") as next_of:
            assert next_of("site/door/state").payload == b"online"
            next_of("site/door/result")


def test_a_broker_that_is_away_delays_nothing(bundle, broker):
    broker.stop()
    options = [*SYNTHETIC, "--frames", "20", "--mqtt", f"127.0.0.1:{broker.port}"]
    done = cam.run(bundle, options)
    assert done.returncode == 0
    assert b"20 submitted = 20 delivered" in done.stderr
    assert b"MQTT" not in done.stderr


def test_a_broker_that_does_not_answer_is_reported_once(bundle, broker):
    broker.stop()
    with running(bundle, broker) as process:
        lines = iter(process.stderr.readline, "")
        told = next(line for line in lines if "MQTT" in line)
        assert told == f"MQTT: 127.0.0.1:{broker.port}: no connection yet; goes on trying\n"


def test_a_login_is_used_and_a_wrong_one_is_reported_once(bundle, tmp_path):
    passwords, login = tmp_path / "passwords", tmp_path / "login"
    passwords.touch(mode=0o600)
    make = needs.installed("mosquitto_passwd", "mosquitto")
    subprocess.run([make, "-b", passwords, "camera", PASSWORD], check=True)
    broker = Broker(tmp_path, "allow_anonymous false", f"password_file {passwords}", "user root")
    login.write_text(f"camera\n{PASSWORD}\n")
    login.chmod(0o600)
    try:
        with (
            subscribed(broker, "site/door/state", user="camera") as next_of,
            running(bundle, broker, "--mqtt-login", str(login)),
        ):
            assert next_of("site/door/state").payload == b"online"
        login.write_text("camera\nanother\n")
        with running(bundle, broker, "--mqtt-login", str(login)) as process:
            lines = iter(process.stderr.readline, "")
            refused = next(line for line in lines if "MQTT" in line)
            assert refused.strip().endswith("Connection Refused: not authorised.")
            time.sleep(2.5)  # two more attempts
            process.send_signal(signal.SIGINT)
            assert "MQTT" not in process.communicate(timeout=20)[1]
    finally:
        broker.stop()


@pytest.mark.parametrize(
    ("content", "mode", "error", "hint"),
    [
        ("camera\n", 0o644, "every user of this machine can read or write this secret", "chmod o="),
        ("camera", 0o600, "found no two lines", LOGIN),
        (None, 0, "No such file", LOGIN),
    ],
)
def test_a_login_that_cannot_be_used_is_an_error(bundle, tmp_path, content, mode, error, hint):
    path = tmp_path / "login"
    if content is not None:
        path.write_text(content)
        path.chmod(mode)
    done = cam.run(bundle, [*SYNTHETIC, "--mqtt", "127.0.0.1:9", "--mqtt-login", str(path)])
    text = done.stderr.decode()
    assert (done.returncode, error in text, hint in text) == (1, True, True), text


def test_an_encrypted_connection_is_made_only_to_the_right_broker(bundle, tmp_path):
    made = []
    for name in ("right", "other"):
        key, certificate = tmp_path / f"{name}.key", tmp_path / f"{name}.pem"
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
        command += ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"]
        command += ["-keyout", str(key), "-out", str(certificate)]
        subprocess.run(command, check=True, capture_output=True)
        made.append(certificate)
    right, other = made
    settings = [f"certfile {right}", f"keyfile {tmp_path / 'right.key'}"]
    broker = Broker(tmp_path, *settings, "allow_anonymous true", "user root")
    try:
        with running(bundle, broker, "--mqtt-tls", str(other)) as process:
            time.sleep(2)
            process.send_signal(signal.SIGINT)
            assert "connected to" not in process.communicate(timeout=20)[1]
        with running(bundle, broker, "--mqtt-tls", str(right)) as process:
            lines = iter(process.stderr.readline, "")
            assert next(line for line in lines if "MQTT: connected to" in line)
    finally:
        broker.stop()


def test_certificates_that_cannot_be_read_are_an_error(bundle, tmp_path):
    done = cam.run(bundle, [*SYNTHETIC, "--mqtt", "127.0.0.1:9", "--mqtt-tls", str(tmp_path / "x")])
    assert done.returncode == 1
    assert "hint: give a file of certificates in PEM format" in done.stderr.decode()


@pytest.mark.parametrize("option", ["--home-assistant", "--mqtt-topic=a", "--mqtt-rate=1"])
def test_options_without_a_broker_are_an_error(bundle, option):
    done = cam.run(bundle, [*SYNTHETIC, *option.split("=")])
    assert done.returncode == 2
    options = "--mqtt-topic, --mqtt-login, --mqtt-tls, --mqtt-rate and --home-assistant need --mqtt"
    assert options in done.stderr.decode()


def test_wrong_values_say_what_is_expected(bundle):
    for options in (["--mqtt", ":1883"], ["--mqtt", "broker:0"], ["--mqtt-topic", "a/#"]):
        done = cam.run(bundle, [*SYNTHETIC, *options])
        assert (done.returncode, options[1].encode() in done.stderr) == (2, True)


def test_home_assistant_learns_of_every_sensor(bundle, broker):
    configs = "homeassistant/+/+/+/config"
    with (
        subscribed(broker, configs, "site/door/statistics", "site/door/result") as next_of,
        running(bundle, broker, "--home-assistant"),
    ):
        found = {}
        while len(found) < 4:
            message = next_of(configs)
            found[message.topic] = json.loads(message.payload)
        values = {
            "site/door/statistics": json.loads(next_of("site/door/statistics").payload),
            "site/door/result": json.loads(next_of("site/door/result").payload),
        }
    assert sorted(found) == [
        "homeassistant/binary_sensor/site_door/camera_fails/config",
        "homeassistant/sensor/site_door/class/config",
        "homeassistant/sensor/site_door/frames_per_second/config",
        "homeassistant/sensor/site_door/latency/config",
    ]
    assert len({config["unique_id"] for config in found.values()}) == 4
    for config in found.values():
        assert config["availability_topic"] == "site/door/state"
        assert config["device"]["model"] == "tiny"
        for path in re.findall(r"value_json\.([\w.]+)", config["value_template"]):
            value = values[config["state_topic"]]
            for key in path.split("."):
                value = value[key]
