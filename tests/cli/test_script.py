import io
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from corral.cli.commands.job_options import SubmitFlags
from corral.cli.jobs.flags import filled, parse_words
from corral.cli.scripts.sbatch import IGNORED, REFUSED, RESOURCES, Translated, read_options, translate
from corral.cli.scripts.sbatch_meanings import MEANINGS
from corral.cli.scripts.script import read_script
from corral.cli.scripts.script_header import at_its_line
from corral.cli.scripts.script_mistakes import Mistaken, ScriptMistakes
from corral.core.model.errors import Forbidden, Refused


def write(path: Path, text: str, mode: int = 0o644) -> str:
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def flags_of(line: str) -> SubmitFlags:
    translated = translated_line(line)
    assert not translated.ignored
    flags = SubmitFlags()
    for words, where in translated.flags:
        flags = filled(flags, parse_words(SubmitFlags, words, where))
    return flags


@dataclass(frozen=True)
class KnownSite:
    queues: frozenset[str] = frozenset({"default", "long"})
    models: tuple[str, ...] = ("NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3")
    labels: frozenset[tuple[str, str]] = frozenset(
        {("zone", "a"), ("zone", "b"), ("nvlink", "true"), ("rack", "b7"), ("row", "b7")}
    )


SITE = KnownSite()


def translated_line(line: str) -> Translated:
    mistakes = ScriptMistakes()
    translated = translate(read_options(line.split(), "job.sh", 1, mistakes), SITE, mistakes)
    mistakes.refuse()
    return translated


def test_header_lines_hold_our_own_flags(tmp_path: Path) -> None:
    path = write(
        tmp_path / "job.sh", "#!/bin/bash\n# hello\n#CORRAL --gpus 2 --name 'a b'\n\n#CORRAL --time 2h\necho hi\n"
    )
    flags = read_script(path).flags
    assert (flags.gpus, flags.name, flags.time) == (2, "a b", "2h")


def test_parameters_of_a_sweep_add_up_over_header_lines_and_a_flag_replaces_those_of_its_name(tmp_path: Path) -> None:
    path = write(tmp_path / "job.sh", "#!/bin/bash\n#CORRAL --param lr=1,2 --zip\n#CORRAL --param seed=0..1\n")
    header = read_script(path).flags
    assert header.param == ["lr=1,2", "seed=0..1"]
    assert filled(SubmitFlags(param=["lr=3", "lr=4", "x=1"]), header).param == ["seed=0..1", "lr=3", "lr=4", "x=1"]
    array = filled(SubmitFlags(array="0-3"), header)
    assert (array.param, array.zip) == (None, False)


def test_what_is_no_script_is_told_how_it_is_submitted_words_and_all(tmp_path: Path) -> None:
    train = write(tmp_path / "train.py", "print()\n")
    for words, command in (((train, ["--lr", "a b"]), f"python {train} --lr 'a b'"), (("sleep", ["4"]), "sleep 4")):
        with pytest.raises(Refused, match=re.escape(f"corral submit -- {command}") + "$"):
            read_script(*words)


def test_blanks_of_any_kind_follow_a_keyword(tmp_path: Path) -> None:
    path = write(tmp_path / "job.sh", "#!/bin/bash\n#SBATCH\t--gpus=2\n#CORRAL   --time 2h\n")
    flags = read_script(path).flags
    assert (flags.gpus, flags.time) == (2, "2h")


def test_a_script_without_lines_for_slurm_is_warned_too_of_what_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    (warning,) = read_script(write(tmp_path / "job.sh", "#!/bin/bash\n#CORRAL --gpus 1\nmpirun ./app\n")).warnings
    assert warning.startswith("job.sh, line 3: there is no mpirun command here")


def test_the_header_ends_with_the_first_line_that_is_no_comment(tmp_path: Path) -> None:
    path = write(tmp_path / "job.sh", "#!/bin/bash\necho hi\n#CORRAL --gpus 2\n")
    assert read_script(path).flags.gpus is None


def test_a_line_of_the_header_below_the_first_command_is_told_not_to_be_read(tmp_path: Path) -> None:
    body = "set -e\n#SBATCH --gpus=4\n# a comment \\\n #CORRAL --time 1h\ncat <<END > b.sh\n#SBATCH -c 2\nEND\n"
    script = read_script(write(tmp_path / "job.sh", f"#!/bin/bash\n#SBATCH --gpus=2\n\n{body}"))
    assert script.flags.gpus is not None
    assert script.warnings == (
        "job.sh, line 5: #SBATCH is ignored after the first command; move it to the top",
        "job.sh, line 7: #CORRAL is ignored after the first command; move it to the top",
    )


def test_our_lines_win_over_slurms_and_later_ones_over_earlier(tmp_path: Path) -> None:
    text = "#!/bin/bash\n#CORRAL --name ours\n#SBATCH -J slurms --gpus=4\n#SBATCH --gpus=3\n"
    flags = read_script(write(tmp_path / "job.sh", text)).flags
    assert (flags.name, flags.gpus) == ("ours", 3)


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("--job-name=sft", "name", "sft"),
        ("-J sft", "name", "sft"),
        ("-Jsft", "name", "sft"),
        ("-t 90", "time", "5400s"),
        ("--time=1-02", "time", "93600s"),
        ("--time 10:30", "time", "630s"),
        ("-t 0", "time", None),
        ("--time=UNLIMITED", "time", None),
        ("--gres=gpu:2", "gpus", 2),
        ("--gres=gpu", "gpus", 1),
        ("--gres=gpu:a100:4", "gpus", 4),
        ("--gres=gpu:a100:4", "gpu_model", "a100"),
        ("--gres=gpu:2(S:0-1)", "gpus", 2),
        ("-G 3", "gpus", 3),
        ("--gpus=h100:2", "gpu_model", "h100"),
        ("--gpus-per-node=8", "gpus", 8),
        ("-a 0-9%2", "array", "0-9%2"),
        ("-D /data", "workdir", "/data"),
        ("-c 4", "cpus", 4.0),
        ("--mem=4000", "host_memory", "4000M"),
        ("--mem=16G", "host_memory", "16384M"),
        ("--mem=0", "host_memory", None),
        ("--nice", "nice", 100),
        ("--nice=250", "nice", 250),
        ("--nice=-100", "nice", -100),
        ("-H", "hold", True),
        ("--begin=now+1hour", "begin", "now+1hour"),
        ("-b 16:00", "begin", "16:00"),
        ("-o %x-%j.out", "output", "%x-%j.out"),
        ("--error=%A_%a.err", "error", "%A_%a.err"),
        ("--open-mode=append", "open_mode", "append"),
        ("--nodes=1 -n 1", "gpus", None),
        ("--dependency=afterok:7:9,afterok:11", "after", ["7", "9", "11"]),
        ("-d afterany:7,afternotok:8:9", "after", ["any:7", "notok:8", "notok:9"]),
        ("-d afterok:7?afternotok:8", "after", ["7?notok:8"]),
        ("-d after:7,aftercorr:8_*,afterok:9_2", "after", ["start:7", "corr:8", "9_2"]),
        ("-d singleton", "after", ["singleton"]),
        ("--mail-type=ALL", "notify_on", "started,done,failed"),
        ("--mail-type=END", "notify_on", "done,failed"),
        ("--mail-type=begin,fail,REQUEUE", "notify_on", "started,failed"),
        ("--mail-type=NONE", "notify_on", None),
    ],
)
def test_slurms_lines_mean_here_what_they_mean_there(line: str, field: str, value: object) -> None:
    assert getattr(flags_of(line), field) == value


@pytest.mark.parametrize(
    "line",
    [
        "--partition=gpu",
        "-p gpu",
        "--priority=100",
        "--mail-type=REQUEUE",
        "--mail-user=me@example.org",
        "--qos=high",
        "-A lab",
        "-s",
    ],
)
def test_what_means_nothing_here_is_named(line: str) -> None:
    assert translated_line(line) == Translated((), (f"{line} (line 1)",), 1)


@pytest.mark.parametrize(
    ("line", "note"),
    [
        ("--export=SEED=3", "job.sh, line 1: --export: unlike in Slurm the job keeps the rest of your environment"),
        ("--export=NONE", "job.sh, line 1: --export: unlike in Slurm"),
        ("-w gpu-[01-02]", "job.sh, line 1: -w: the job runs on as many of these nodes as it needs"),
    ],
)
def test_what_slurm_would_do_otherwise_is_told(line: str, note: str) -> None:
    (told,) = translated_line(line).notes
    assert told.startswith(note)
    assert not translated_line("--export=ALL,A=1 -w gpu-01").notes


def test_the_tables_of_the_page_on_slurm_have_each_option_once_where_it_belongs() -> None:
    page = (Path(__file__).parents[2] / "docs/slurm.md").read_text()
    sections = (("Honoured", {*MEANINGS, *RESOURCES}), ("Refused", set(REFUSED)), ("Ignored", set(IGNORED)))
    for title, meant in sections:
        section = page.partition(f"## {title}\n")[2].partition("\n## ")[0]
        cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
        told = [name.removeprefix("--") for cell in cells for name in re.findall(r"`([\w-]+)`", cell)]
        assert sorted(told) == sorted(meant), title


def test_a_script_that_is_only_to_be_tried_says_so() -> None:
    assert translated_line("--test-only --gpus=1").test_only


@pytest.mark.parametrize(
    ("line", "flags"),
    [
        ("--ntasks=4 --gpus-per-task=1", {"gpus": 4}),
        ("--gpus=8 --gpus-per-task=2 -c 4", {"gpus": 8, "cpus": 16.0}),
        ("-n 2 --gpus-per-task=a100:2 --cpus-per-task=3", {"gpus": 4, "gpu_model": "a100", "cpus": 6.0}),
        ("-N 2 --gpus-per-node=4", {"gpus": 4, "gang": 2, "spread": True}),
        ("-N 2-4 --gres=gpu:h100:8", {"gpus": 8, "gpu_model": "h100", "gang": 2, "spread": True}),
        ("-N 2 --ntasks-per-node=4 --gpus-per-task=1 -c 2", {"gpus": 4, "gang": 2, "spread": True, "cpus": 8.0}),
        ("-N 2 --gpus=8 --gpus-per-node=4", {"gpus": 4, "gang": 2, "spread": True}),
        ("-n 8 --ntasks-per-node=4 --gpus-per-node=4", {"gpus": 4, "gang": 2, "spread": True}),
        ("--gpus=4 --cpus-per-gpu=8 --mem-per-gpu=32G", {"gpus": 4, "cpus": 32.0, "host_memory": "131072M"}),
        ("-n 4 -c 2 --mem-per-cpu=1G", {"cpus": 8.0, "host_memory": "8192M"}),
        ("-c 2 --mincpus=6", {"cpus": 6.0}),
        ("--gres=gpu:0", {"gpus": 0}),
        ("--gres=none", {"gpus": 0}),
        ("--signal=USR1@120", {"checkpoint_signal": "S:USR1@120s"}),
        ("--signal=B:SIGTERM", {"checkpoint_signal": "B:TERM@60s"}),
        ("--signal=RB:USR2@5", {"checkpoint_signal": "B:USR2@5s"}),
        ("--signal=R:USR2@5", {"checkpoint_signal": "S:USR2@5s"}),
        ("--signal=10@30", {"checkpoint_signal": "S:USR1@30s"}),
        ("--exclusive", {"exclusive": True}),
        ("--exclusive --gres=gpu:a100:2", {"exclusive": True, "gpu_model": "a100"}),
        ("--constraint=a100|h100", {"gpu_model": "a100,h100"}),
        ("-C a100&80gb", {"gpu_model": "a100-80gb"}),
        ("-C [a100|h100]&zone=b", {"gpu_model": "a100,h100", "label": ["zone=b"]}),
        ("--gpus=a100:2 -C 40gb|80gb", {"gpus": 2, "gpu_model": "a100-40gb,a100-80gb"}),
        ("-C a100&nvlink", {"gpu_model": "a100", "label": ["nvlink=true"]}),
        ("-C a", {"label": ["zone=a"]}),
        ("-C v100|a100", {"gpu_model": "v100,a100"}),
        ("--gres=gpu:h100:2 -C nvlink&b", {"gpus": 2, "gpu_model": "h100", "label": ["nvlink=true", "zone=b"]}),
        ("--export=ALL,SEED=3", {"env": ["SEED=3"]}),
        ("--export=SEED=3,HOME,A='1,2',B=\"x\"", {"env": ["SEED=3", "A=1,2", "B=x"]}),
        ("--export=NONE", {}),
        ("--exclude=gpu-[01-03,07]", {"exclude": ["gpu-[01-03,07]"]}),
        ("-x gpu-01", {"exclude": ["gpu-01"]}),
        ("-w gpu-04,gpu-05", {"node": ["gpu-04,gpu-05"]}),
        ("--tmp=10G", {"disk": "10240M"}),
        ("--tmp=500", {"disk": "500M"}),
        ("-i data.txt", {"input": "data.txt"}),
        ("--partition=gpu,long", {"queue": "long"}),
        ("--requeue", {}),
        ("--no-requeue", {"retries": 0}),
    ],
)
def test_lines_about_resources_are_understood_together(line: str, flags: dict[str, object]) -> None:
    assert flags_of(line) == SubmitFlags(**flags)


def test_the_tasks_of_a_script_are_counted() -> None:
    lines = ("--gpus=2", "-n 4", "-N 2 --ntasks-per-node=4", "--gpus=4 --gpus-per-task=2", "-N 2")
    assert [translated_line(line).tasks for line in lines] == [1, 4, 8, 2, 2]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--gpus=4 -N 2 --gpus-per-node=4", "--gpus and --gpus-per-node .* one comes to 4 GPUs and the other to 8"),
        ("-n 4 --gpus-per-task=1 --gres=gpu:2", "one comes to 2 GPUs and the other to 4"),
        ("--gpus=5 -N 2", "5 GPUs cannot be divided evenly among 2 nodes; ask for a multiple of 2"),
        ("--gpus=5 --gpus-per-task=2", "must be a multiple"),
        ("-N 2 -n 1", "1 task cannot be on 2 nodes"),
        ("-N 1 -n 8 --ntasks-per-node=4", "4 tasks fit on 1 node"),
        ("--gres=gpu:a100:1,gpu:h100:1", "all GPUs of a job are of one model"),
        ("--gres=gpu:a100:1 --gpus=h100:1", "all GPUs of a job are of one model"),
        ("--gres=gpu:1,shard:2", "'shard:2' is not available here; for a part of a GPU write #CORRAL --gpus 0.5"),
        ("--gres=nvme:1", "'nvme:1' is not available"),
        ("--exclusive=user", "remove 'user'"),
        ("--exclusive --gpus=0", "takes all GPUs and .* takes none"),
        ("--cpus-per-task=2 --cpus-per-gpu=4", "cores are counted either per task or per GPU"),
        ("--mem=1G --mem-per-cpu=1G", "memory is counted either per node"),
        ("--mem=lots", "not an amount of MB"),
        ("-N none", "not a number of nodes"),
        ("-N 4-2", "not a number of nodes"),
        ("-n 0", "of 1 or more"),
        ("--constraint=a100*2", "is not supported; write GPU models and labels"),
        ("-C (a100|h100)&ib", "is not supported"),
        ("-C a100|zone=b", "zone=b is a label .* alternatives; write & .* or #CORRAL --prefer zone=b"),
        ("-C a100&nvlink|h100", "nvlink=true is a label of nodes, and labels cannot be alternatives"),
        ("-C zone=a|zone=b", "labels cannot be alternatives"),
        ("-C b7", "'b7' may mean several labels of nodes; write one of rack=b7, row=b7"),
        ("-C infiniband", "neither a word of a GPU model nor a label here; write one of the models .*A100.* zone=a"),
        ("-C v100|infiniband", "'v100' is neither"),
        ("--exclude=gpu-[1", "'gpu-.1' is not a list of nodes"),
        ("-w /etc/hosts", "'/etc/hosts' is a file; write the nodes themselves"),
        ("-F hosts", "-F is not supported here; write the nodes themselves"),
        ("--uid=0", "--uid is not supported here; a job runs as who submits it"),
        ("--gid=7", "--gid is not supported here"),
        ("--export-file=env", "--export-file is not supported here; read the file in the script"),
        ("--container=/c", "--container is not supported here; write #CORRAL --image IMAGE"),
        ("--tmp=much", "not an amount of MB"),
        ("--gpus-per-socket=1", "--gpus-per-socket is not supported here; use --gpus-per-node"),
        ("--licenses=matlab:1", "remove it"),
        ("--wrap=hostname", "it replaces the script by a command"),
        ("--signal=KILL@60", "write one of HUP, INT, USR1, USR2, TERM"),
        ("--signal=USR1@soon", "such as USR1@60"),
        ("--gpu-per-node=2", r"not an option of sbatch; did you mean '--gpus-per-node'\?"),
        ("hetjob", "hetjob is not supported here; submit each part as a job of its own"),
    ],
)
def test_what_contradicts_itself_or_cannot_be_meant_is_refused_with_its_line(line: str, said: str) -> None:
    with pytest.raises(Refused, match=f"^job.sh, line 1: .*{said}"):
        translated_line(line)


def test_lines_that_contradict_each_other_are_both_named(tmp_path: Path) -> None:
    path = write(tmp_path / "job.sh", "#!/bin/bash\n#SBATCH --gpus=4\n#SBATCH -N 2\n#SBATCH --gpus-per-node=4\n")
    with pytest.raises(Refused, match=r"^job.sh, line 2: --gpus and --gpus-per-node \(line 4\) contradict each other"):
        read_script(path)


def test_ignored_lines_are_named_with_their_number(tmp_path: Path) -> None:
    path = write(tmp_path / "job.sh", "#!/bin/bash\n#SBATCH --gpus=1\n#SBATCH --partition=gpu --mail-user=me\n")
    assert read_script(path, site=SITE).ignored == ("--partition=gpu (line 3)", "--mail-user=me (line 3)")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("#CORRAL --gpuz 2", r"job.sh, line 2: .*--gpuz"),
        ("#CORRAL --gpus two", r"job.sh, line 2: .*--gpus"),
        ("#CORRAL --name 'open", r"job.sh, line 2: .*quot"),
        ("#SBATCH --time=soon", r"job.sh, line 2: --time: 'soon' is not a Slurm time"),
        ("#SBATCH --array=x", r"job.sh, line 2: --array: 'x' is not an index"),
        ("#SBATCH --gpus=a100:1,v100:2", r"job.sh, line 2: --gpus: .* not a number of GPUs"),
        (
            "#SBATCH -d after:7+10",
            r"job.sh, line 2: -d: 'after:7\+10' is not a supported dependency; write afterok:ID, afterany:ID",
        ),
        ("#SBATCH -d expand:7", r"job.sh, line 2: -d: 'expand:7' is not a supported dependency"),
        ("#SBATCH -d 7", r"job.sh, line 2: -d: '7' is not a supported dependency"),
        ("#SBATCH -d afterok:7,afterany:8?afterany:9", r"job.sh, line 2: .* use only one of the two"),
        ("#SBATCH --job-name", r"job.sh, line 2: --job-name needs a value"),
    ],
)
def test_a_mistake_in_the_header_is_refused_with_its_line(tmp_path: Path, line: str, message: str) -> None:
    path = write(tmp_path / "job.sh", f"#!/bin/bash\n{line}\n")
    with pytest.raises(Refused, match=message):
        read_script(path)


def test_an_executable_script_runs_itself_and_another_by_its_interpreter(tmp_path: Path) -> None:
    path = write(tmp_path / "job.sh", "#!/usr/bin/env bash\n", 0o755)
    assert read_script(path, ["a"]).command == (path, "a")
    plain = write(tmp_path / "plain.sh", "#!/usr/bin/env bash\n", 0o644)
    runner = (plain,) if os.access(plain, os.X_OK) else ("/usr/bin/env", "bash", plain)
    assert read_script(plain, ["a"]).command == (*runner, "a")


@pytest.mark.parametrize("text", ["", "echo hi\n", "\x7fELF\x00\xff"])
def test_what_does_not_say_what_runs_it_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(Refused, match="#!/bin/bash"):
        read_script(write(tmp_path / "job", text))


def test_a_command_without_dashes_is_told_how_to_be_submitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Refused, match=r"corral submit -- python"):
        read_script("python", ["train.py"])


def sent(monkeypatch: pytest.MonkeyPatch, script: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(script)))


def test_a_script_of_standard_input_is_kept_where_others_do_not_see_it(monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"#!/usr/bin/env -S python3 -u\n#CORRAL --gpus 2\nprint('secret \xc3\xa9')\n"
    sent(monkeypatch, text)
    script = read_script("-", ["a b"])
    assert (script.flags.gpus, script.flags.name) == (2, "stdin")
    assert script.command == ("/usr/bin/env", "-S python3 -u", "-", "a b")
    assert script.text == text.decode()
    sent(monkeypatch, b"#!/bin/sh\n#CORRAL --name mine\n")
    assert read_script("-").flags.name == "mine"


@pytest.mark.parametrize(
    ("text", "said"),
    [(b"", "does not begin with #!"), (b"echo hi\n", "does not begin with #!"), (b"#!\n", "names no interpreter"),
     (b"#!/bin/sh\n\0", "has a zero byte"), (b"#!/bin/sh\n\xff", "is not UTF-8"),
     (b"#!/bin/sh\n" + b"#" * 4 * 1024**2, "has more than 4 MiB"),
     (b"#!/bin/sh\n#CORRAL --gpus\n", "standard input, line 2")],
)  # fmt: skip
def test_standard_input_that_is_no_script_is_refused(monkeypatch: pytest.MonkeyPatch, text: bytes, said: str) -> None:
    sent(monkeypatch, text)
    with pytest.raises(Refused, match=said):
        read_script("-")


def test_a_script_goes_along_as_it_is_byte_for_byte(tmp_path: Path) -> None:
    text = b"#!/bin/sh\r\n# \xc3\xa9\necho\n"
    path = tmp_path / "job.sh"
    path.write_bytes(text)
    kept = read_script(str(path)).text
    assert kept is not None
    assert kept.encode() == text


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (b"\0", "a zero byte"),
        (b"\xff", "not UTF-8"),
        (b"#" * 4 * 1024**2, "more than 4 MiB"),
        (b"\1" * 2**21, "not plain text"),
    ],
)
def test_a_script_that_cannot_be_kept_runs_as_its_file_and_its_user_is_told(
    tmp_path: Path, more: bytes, why: str
) -> None:
    path = tmp_path / "job.sh"
    path.write_bytes(b"#!/bin/sh\ntrue\n" + more)
    script = read_script(str(path))
    assert script.text is None
    assert why in script.warnings[0]
    assert script.command[-1] == str(path)


def test_all_mistakes_of_a_script_are_told_at_once_each_with_its_line(tmp_path: Path) -> None:
    lines = (
        "#CORRAL --gpuz 2",
        "#SBATCH --time=soon --uid=0",
        "#SBATCH --nodes=many --mem=lots",
        "#CORRAL --name 'open",
        "#SBATCH --gpu=1",
        "#CORRAL --min-memory much --time 90 --begin whenever",
        "#SBATCH --signal=USR1@0s -C infiniband",
        "#CORRAL --env A",
    )
    path = write(tmp_path / "job.sh", "\n".join(("#!/bin/bash", *lines, "")))
    with pytest.raises(Mistaken) as told:
        read_script(path, site=SITE)
    starts = sorted(mistake.partition(" ")[2][:32] for mistake in told.value.mistakes)
    assert [one.partition(":")[0] for one in starts] == [
        "line 2", "line 3", "line 3", "line 4", "line 4", "line 5", "line 6", "line 7", "line 7", "line 7", "line 8",
        "line 8", "line 9",
    ]  # fmt: skip
    for said in ("--gpuz", "'soon' is not a Slurm time", "'many' is not a number of nodes", "'lots' is not an amount",
                 "quote", "'infiniband' is neither", "--min-memory: 'much'", "--time: '90'", "'whenever'"):  # fmt: skip
        assert sum(said in mistake for mistake in told.value.mistakes) == 1, said


def test_a_line_that_the_command_line_overrides_or_completes_is_no_mistake(tmp_path: Path) -> None:
    path = write(tmp_path / "job.sh", "#!/bin/bash\n#CORRAL --max-running 2 --time 90\n")
    with pytest.raises(Mistaken):
        read_script(path)
    assert read_script(path, given=SubmitFlags(array="0-3", time="1h")).flags.max_running == 2


def test_what_the_server_refuses_is_told_with_the_line_that_asks_for_it(tmp_path: Path) -> None:
    script = read_script(write(tmp_path / "job.sh", "#!/bin/bash\n#SBATCH --signal=USR1@60\n#SBATCH -t 1\n"), site=SITE)
    for field, line in (("checkpoint_signal", 2), ("checkpoint_grace_s", 2), ("time_limit_s", 3)):
        told = at_its_line(Forbidden("no", field=field), script.origins)
        assert str(told).startswith(f"job.sh, line {line}: ")
        assert isinstance(told, Forbidden)
    assert str(at_its_line(Refused("no", field="queue"), script.origins)) == "no"
