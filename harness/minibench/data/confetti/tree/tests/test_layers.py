from confetti import Layers, loads


def layers():
    return Layers(loads("[a]\nx = 1\n"), loads("[a]\nx = 2\ny = 2\n"), loads("[a]\nz = 3\n"))


def test_the_top_layer_comes_first():
    assert layers().get("a", "x") == "1"


def test_default():
    assert layers().get("b", "x", "nothing") == "nothing"


def test_has_and_origin():
    assert layers().has("a", "z")
    assert not layers().has("a", "w")
    assert layers().origin("a", "y") == 1
    assert layers().origin("a", "w") is None


def test_flattened():
    assert layers().flattened().as_dict() == {"a": {"z": "3", "x": "1", "y": "2"}}


def test_add_goes_below():
    assert layers().add(loads("[b]\nw = 4\n")).origin("b", "w") == 3
