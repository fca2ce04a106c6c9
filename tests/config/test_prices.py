"""What a GPU-hour costs is read digit by digit, and what is no price is refused in words."""

from datetime import datetime
from pathlib import Path

import pytest

from corral.config import Settings, load_settings
from corral.config.differences import differences
from corral.core.model.devices.price import Price
from corral.core.model.errors import Refused


def settings_of(tmp_path: Path, text: str) -> Settings:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    return load_settings(path)


def test_a_price_is_of_a_model_from_a_day_on_or_of_all_of_them(tmp_path: Path) -> None:
    found = settings_of(
        tmp_path,
        """currency: EUR
prices:
  - gpu_hour: 1.20
  - {model: H100-80GB, gpu_hour: 2.000001, from: 2026-07-01}
  - {model: "*", gpu_hour: 0, from: 2026-07-01T08:30}
""",
    )
    july = datetime(2026, 7, 1).astimezone().timestamp()
    assert found.currency == "EUR"
    assert found.prices == (
        Price(1_200_000),
        Price(2_000_001, "H100-80GB", july),
        Price(0, None, datetime(2026, 7, 1, 8, 30).astimezone().timestamp()),
    )


def test_one_price_for_everything_is_a_number(tmp_path: Path) -> None:
    assert settings_of(tmp_path, "prices: 1.5").prices == (Price(1_500_000),)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("prices: cheap", "'cheap' is not a price; write what a GPU-hour costs as a number from 0"),
        ("prices: -1", "'-1' is not a price"),
        ("prices: 1e9", "'1e9' is not a price"),
        ("prices: .inf", "'.inf' is not a price"),
        ("prices: 1,50", "'1,50' is not a price"),
        ("prices: 2.50 EUR", "without the currency"),
        ("prices: 9999999", "from 0 to 1,000,000"),
        ("prices: 0.0000001", "six digits"),
        ("prices: {H100: 2}", "a list of prices"),
        ("prices:\n  - 3", "line 2: prices: write each price as a group"),
        ("prices:\n  - {model: H100}", "line 2: prices: gpu_hour is missing"),
        ("prices:\n  - {gpu_hours: 2}", "did you mean 'gpu_hour'"),
        ("prices:\n  - {gpu_hour: 2, from: July}", "'July' is not a day"),
        ("prices:\n  - {gpu_hour: 2, model: ''}", "the value is empty"),
        ("prices:\n  - {gpu_hour: 2}\n  - {gpu_hour: 3, model: '*'}", "line 3: prices: there is already a price"),
        ("currency: 7", "'7' is not a currency"),
        ("currency: '=1+1'", "is not a currency"),
    ],
)
def test_nonsense_is_refused_with_what_to_write(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(Refused) as refused:
        settings_of(tmp_path, text)
    assert said in str(refused.value)
    assert str(refused.value).startswith(f"{tmp_path}/config.yaml, line ")


def test_a_change_of_prices_is_told_in_words(tmp_path: Path) -> None:
    before, after = Settings(), settings_of(tmp_path, "prices: [{model: H100, gpu_hour: 2.5, from: 2026-07-01}]")
    (changed,) = differences(before, after, frozenset({"prices"}))
    assert changed == ("prices", "none", "2.5 for H100 from 2026-07-01T00:00")
