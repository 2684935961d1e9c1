"""What is hidden, escaped or shortened before a text is shown."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.errors import TfperfError, WorkloadError, one_of
from pytest_tfperf.lines import Line, LineKind, one_line, printable, rendered, shortened, without_passwords

# What a password may have without %XX: a URL's end of the user, and a text's own line end or gap, are not among it.
PROGRAMS = Path(__file__).parents[1] / "data" / "programs"
PASSWORDS = st.text(st.characters(exclude_categories=("Cc", "Cs", "Z"), exclude_characters='"'), min_size=1)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://ann:secret@db/d", "postgresql://ann:***@db/d"),
        ("see 'postgresql://ann:se/cr?et@db:5432/d'.", "see 'postgresql://ann:***@db:5432/d'."),
        ("postgresql:/ann:secret@db/d", "postgresql:/ann:***@db/d"),  # a Path
        ("postgresql:/ann:sec", "postgresql:/ann:***"),  # a Path's parent
        ("redis://:secret@db", "redis://:***@db"),
        ("postgresql://ann@tenant:secret@db", "postgresql://ann@tenant:***@db"),
        ("postgresql://ann:my secret@db/d", "postgresql://ann:***@db/d"),
        ("postgresql://ann:12345@db", "postgresql://ann:***@db"),
        ("postgresql://ann:12/45@db", "postgresql://ann:***@db"),
        ("postgresql://ann:secr ... and no end", "postgresql://ann:*** ... and no end"),
        ("a://b:c@d, e://f:g@h and more", "a://b:***@d, e://f:***@h and more"),
        ("postgresql://db/d?sslpassword=secret&password=secret", "postgresql://db/d?sslpassword=***&password=***"),
        ("host=h password=secret dbname=d", "host=h password=*** dbname=d"),
        ("host = h password = 'my secret' dbname = d", "host = h password = '***' dbname = d"),
        ("PGPASSWORD=secret psql", "PGPASSWORD=*** psql"),
        ("Server=h;Pwd=secret;Database=d", "Server=h;Pwd=***;Database=d"),
        ('{"password": "secret"}', '{"password": "***"}'),
        ('{"test": "password=\\"my secret\\""}', '{"test": "password=\\"***\\""}'),
        ("no folder 'ann:secret@db/d'", "no folder 'ann:***@db/d'"),
        ("--url=postgresql:ann:secret@db/d", "--url=postgresql:***@db/d"),
        ("postgresql//ann:secret@db/d", "postgresql//ann:***@db/d"),
        ("postgresql%3A%2F%2Fann%3Asecret%40db", "postgresql%3A%2F%2Fann%3A***@db"),
        ("https://secret@host/a", "https://***@host/a"),
        ("git+https://secret:x-oauth-basic@host/a", "git+https://***@host/a"),
        ("password: secret", "password: ***"),
        ("Password:secret and more", "Password:*** and more"),
        ("password='it\"s, a secret' and more", "password='***' and more"),
        ("password='a secret that was cut off", "password='***'"),
        ("password: se,cr)et;a and more", "password: *** and more"),
        ("(password=secret, lr=0.1)", "(password=***, lr=0.1)"),
        ("train.py --password secret --epochs 3", "train.py --password *** --epochs 3"),
        ("train.py --db-password=secret -v", "train.py --db-password=*** -v"),
        ("['train.py', '--password', 'secret', '-v']", "['train.py', '--password', '***', '-v']"),
        (
            "['train.py', \"--token\", 'secret', '--hub-token', 'secret']",
            "['train.py', \"--token\", '***', '--hub-token', '***']",
        ),
        ("--token secret --hub_token=secret", "--token *** --hub_token=***"),
        ("HF_TOKEN=secret WANDB_API_KEY=secret python", "HF_TOKEN=*** WANDB_API_KEY=*** python"),
        ("api_key: secret, secret_key='secret'", "api_key: ***, secret_key='***'"),
        ("{'token': 'abcdefgh12345secret'}", "{'token': '***'}"),
        ('{"password": 12345, "key": 1}', '{"password": "***", "key": 1}'),
        ("curl -H 'Authorization: Bearer secret' x", "curl -H 'Authorization: Bearer ***' x"),
        ('{"authorization": "Basic secret", "a": 1}', '{"authorization": "Basic ***", "a": 1}'),
        ("https://hooks.slack.com/services/T0/B0/secret : 404", "https://hooks.slack.com/*** : 404"),
        ("<https://discord.com/api/webhooks/1/secret>", "<https://discord.com/api/webhooks/***>"),
        ("https://acme.webhook.office.com/webhookb2/a@b/secret", "https://acme.webhook.office.com/***"),
        ("https://s3.example.com/a?X-Amz-Signature=secret&b=1", "https://s3.example.com/a?X-Amz-Signature=***&b=1"),
        ("wandb login 0123456789abcdef0123456789abcdef01234567", "wandb login ***"),
    ],
)
def test_a_password_is_hidden(text: str, shown: str) -> None:
    assert without_passwords(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://ann@db:5432/d",
        "http://db:8080 and me@example.com",
        "http://[::1]:8080/",
        "http://db:8080: refused",
        "docker run -v data:/data:ro",
        "https://example.com/a:b",
        "perf_tests/test_a.py::test_b[ann@example.com]",
        "python:3.11@sha256:0123 and git@github.com:ann/repository and x @ git+https://example.com/x@main",
        "In a password write special characters as %XX",
        "ssh://git@github.com/ann/nets and https://example.com/@ann",
        "step 10: tokens/s: 1234, tokens: 1024, token: 3.2 loss, token: hello, next token: <unk>, max_token=512",
        "train.py --eos-token </s> --pad_token [PAD] '--bos-token', '<s>' --max-token 512 --tokenizer=bert-base-v1",
        "password_length 8, password_length: 8, passwords, keys: 5, key: 5, keyboard=us, secretary: ann",
        "train.py: error: argument --password: expected one argument",
        "Namespace(password=None, token=None, secret=False)",
        '{"password": null, "token": 7, "secret": ["a"]}',
        "accuracy:0.91@5 loss:0.1@step:3",
        "pwd: /home/ann, PWD=/root, docker run -v $PWD:$PWD -w $PWD",
        "tests/test_password.py::TestSecret::test_token[8]",
        "wandb: commit 0123456789abcdef0123456789abcdef01234567, Bearer of the name",
    ],
)
def test_what_is_no_password_stays(text: str) -> None:
    assert without_passwords(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "a://b:c ",
        ":/",
        ":/a",
        "a://b:c@",
        "a://h:80/",
        "?password=x",
        'a://b:c"',
        "a b:/c: ",
        "password='",
        "a:'@",
        "::",
        "#",
        "https://",
        "https://a@",
        "password: x",
        "--password ",
        "--a-",
        "token=",
        "token=a1",
        "secret=\\'",
        "sk-",
        "eyJaaaaaaaaaa.",
        "eyJ-",
        "?a-",
        "key,",
    ],
)
def test_a_text_of_a_megabyte_takes_no_quadratic_time(text: str) -> None:
    """It would take hours."""
    assert printable(text * 100_000)


@given(PASSWORDS)
def test_no_password_of_a_url_is_left(password: str) -> None:
    shown = without_passwords(f"can't open postgresql://ann:{password}!SECRET@db/d")
    assert shown == "can't open postgresql://ann:***@db/d"


CARRIERS = (
    *("https://{}@host/a", "password: {}", "password={} more", "--password {} --epochs 3", "db_password = '{}'"),
    *("['--password', '{}', 'x']", '{{"api_key": "{}"}}', "Authorization: Bearer {}", "--hub-token={}"),
    *("https://hooks.slack.com/services/T0/B0/{}", "https://x.webhook.office.com/a/{}", "MY_SECRET={}"),
)
WORDS = st.text("abcXYZ0189_-.~+", min_size=1)


@given(st.lists(st.sampled_from(CARRIERS), min_size=1), WORDS, st.text("\"' ,;:{}[]", max_size=3))
def test_no_secret_is_left_wherever_it_stands(carriers: list[str], word: str, between: str) -> None:
    text = f"{between} ".join(carrier.format(f"S{word}SECRET") for carrier in carriers)
    assert "SECRET" not in without_passwords(text).replace("MY_SECRET", "")


@given(
    st.lists(st.text() | st.sampled_from(CARRIERS) | st.sampled_from(("token", ":", "=", "--", "'", '"', "***", "@")))
)
def test_what_is_hidden_stays_hidden_and_adds_little(texts: list[str]) -> None:
    text = "".join(texts)
    shown = without_passwords(text)
    assert without_passwords(shown) == shown
    assert len(shown) <= 4 * len(text)


@pytest.mark.parametrize("log", sorted(PROGRAMS.iterdir()), ids=lambda path: path.name)
def test_the_output_of_a_usual_program_stays(log: Path) -> None:
    text = log.read_text()
    assert without_passwords(text) == text


HIDDEN = (
    "postgresql://ann:secret@db/d",
    "http://a:b",
    "password='secret'",
    'password="secret" x',
    "ann:secret@db",
    *CARRIERS,
)


@given(st.lists(st.text() | st.sampled_from((*HIDDEN, "::error::x", "##[error]x", "##vso[x]"))))
def test_json_stays_json(texts: list[str]) -> None:
    shown = json.loads(printable(json.dumps(texts)))
    assert len(shown) == len(texts)
    assert "secret" not in "".join(shown)


@given(st.text())
def test_a_terminal_gets_nothing_to_obey(text: str) -> None:
    assert all(ord(c) >= 32 or c in "\r\n\t" for c in printable(text))
    assert one_line(text).isprintable() or not text.isprintable()


@given(
    st.lists(st.sampled_from(["::", ":", "##[", "#", "##vso[", "##VSO[", "\n", " ", "\t", "\r\n", "x"])).map("".join)
)
def test_a_ci_system_gets_nothing_to_obey(text: str) -> None:
    for line in printable(text).splitlines():
        assert not line.strip().startswith("::")
        assert not re.search(r"##(vso)?\[", line, re.IGNORECASE)
    assert printable(printable(text)) == printable(text)


def test_only_a_workflow_command_of_our_own_begins_with_colons() -> None:
    lines = [Line("::error::\n::error::", kind=LineKind.CI_COMMAND), Line("  ::error::"), "##[error] a\n::error::"]
    assert rendered(lines, None) == [r"::error::\n::error::", r"  \u003a:error::", r"\u0023#[error] a\n::error::"]


def test_an_escape_sequence_and_a_turn_of_the_direction_are_shown() -> None:
    assert printable("\x1b[2Ja\u202eb\rc\n\td\x9b") == r"\x1b[2Ja\u202eb\rc" + "\n\td" + r"\x9b"
    assert one_line("a\nb\tc\r\n") == r"a\nb\tc\r\n"


@given(st.text(max_size=1000))
def test_a_long_value_keeps_its_ends(text: str) -> None:
    value = f"first{text}last"
    shown = shortened(value)
    assert len(shown) <= 200
    assert shown.startswith("first")
    assert shown.endswith("last")


def test_a_password_is_hidden_before_a_value_is_cut() -> None:
    assert "s" not in shortened("postgresql://a:" + "s" * 10_000 + "@db").partition("://")[2]


def test_an_error_hides_passwords_and_shortens_what_it_repeats() -> None:
    assert str(WorkloadError("no folder postgresql://ann:secret@db")) == "no folder postgresql://ann:***@db"
    assert len(str(TfperfError(one_of("machine", "x" * 10_000, ["y" * 10_000])))) < 1000
    assert len(str(TfperfError("x" * 10_000 + "\n" + "y" * 10_000))) < 5000
