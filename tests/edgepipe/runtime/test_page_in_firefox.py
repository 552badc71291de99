"""The live page in Firefox: pictured on a desktop and on a telephone, in light and in dark."""

import cam_programs as cam
import numpy as np
import pytest
from firefox_browser import open_firefox
from levels import every

SIZES = {"desktop": (1280, 800), "telephone": (390, 844)}
PLACE = """
const {left, top, width, height} = document.getElementById("picture").getBoundingClientRect();
return [left, top, width, height].map(Math.round);
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    bundle = cam.make_bundle(tmp_path_factory.mktemp("page"))
    with cam.serving(bundle, ["--source", "synthetic", "--rate", "10"]) as (address, _):
        yield address


@pytest.fixture(scope="module", params=["light", "dark"])
def scheme(request):
    return request.param


@pytest.fixture(scope="module")
def firefox(scheme):
    with open_firefox(scheme) as opened:
        yield opened


@pytest.mark.parametrize("size", every(2, [(size,) for size in SIZES.values()]), ids=SIZES)
def test_the_page_shows_the_picture_and_its_figures(firefox, scheme, url, size):
    firefox.resize(*size)
    firefox.get(url)
    firefox.wait_until("document.getElementById('picture').dataset.frame > 3")
    firefox.wait_until("document.getElementById('stages').rows.length === 3")
    assert firefox.run("return document.getElementById('connection').textContent") == "live"
    assert firefox.run("return document.documentElement.scrollWidth") <= size[0], "it fits"
    pictured = firefox.screenshot()
    assert pictured.shape == (size[1], size[0], 3)
    left, top, width, height = firefox.run(PLACE)
    assert width > size[0] / 2
    shown = pictured[top : min(top + height, size[1]), left : left + width]
    assert shown.std() > 10, "the picture is blank"
    margin = np.median(pictured[:, 2])
    assert margin > 200 if scheme == "light" else margin < 50
