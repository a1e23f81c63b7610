import pytest

from stockroom import NotEnough, Warehouse


def warehouse():
    made = Warehouse()
    made.receive("H-1", 5, "shelf 1")
    made.receive("H-1", 2, "shelf 2")
    made.receive("S-1", 1, "shelf 2")
    return made


def test_stock_and_places():
    assert warehouse().stock("H-1") == 7
    assert warehouse().places("H-1") == ["shelf 1", "shelf 2"]
    assert warehouse().stock("X") == 0


def test_pick_from_one_place():
    made = warehouse()
    made.pick("H-1", 5, "shelf 1")
    assert made.places("H-1") == ["shelf 2"]


def test_pick_from_several_places_starts_with_the_fewest():
    made = warehouse()
    made.pick("H-1", 3)
    assert made.snapshot() == {"shelf 1": {"H-1": 4}, "shelf 2": {"S-1": 1}}


def test_pick_more_than_there_is():
    with pytest.raises(NotEnough, match="8 of H-1 were asked for, 7 are there"):
        warehouse().pick("H-1", 8)


def test_move():
    made = warehouse()
    made.move("H-1", 2, "shelf 1", "shelf 3")
    assert made.stock("H-1") == 7
    assert made.places("H-1") == ["shelf 1", "shelf 2", "shelf 3"]


def test_correct():
    made = warehouse()
    made.correct("S-1", 3, "shelf 2", "counted")
    assert made.stock("S-1") == 3
    assert made.ledger.of("S-1")[-1].note == "counted"


def test_the_ledger_knows_everything():
    made = warehouse()
    made.pick("H-1", 3)
    assert made.ledger.balance("H-1") == made.stock("H-1")
    assert made.ledger.balance("H-1", "shelf 2") == 0


def test_counts_must_be_positive():
    with pytest.raises(ValueError):
        warehouse().receive("H-1", 0, "shelf 1")
    with pytest.raises(ValueError):
        warehouse().pick("H-1", -1)
