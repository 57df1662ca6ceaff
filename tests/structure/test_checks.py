#!/usr/bin/env python3
"""Tests of the checks: a small repository that is clean, and one seeded violation a test."""
import contextlib
import io
import pathlib
import shutil
import tempfile
import unittest
import unittest.mock

import additions
import check_catalogue
import check_families
import check_general
import check_glossary
import check_includes
import check_loops
import check_rooms
import check_settled
import check_text
import check_words
import list_sizes
import planted_faults
import repository
import test_additions

ROOMS = """# Rooms

| room | what it is | may include |
|---|---|---|
| `base` | Errors. | - |
| `program` | The language. | base |
| `plan` | Plans. | base |
| `run` | Runs. | base, program |
| `cli` | All. | base, program, plan, run |

| word | means | in | elsewhere |
|---|---|---|---|
| `state` | what a run keeps | `run` | `plan`: the one of a plan; `state_of_lock`: another |
| `layer` | the repeated part | `plan` | |
| `block`, `blocked` | an order in memory | `program` | |
| `format` | an order, or a text | any | |
| `part` | nothing | | |
"""
CMAKE = """option(FOURFOLD_WERROR "Treat warnings as errors" ON)
add_compile_options(-Wall -Wextra -Wconversion -Wshadow -g1)
if(FOURFOLD_WERROR)
  add_compile_options(-Werror)
endif()
"""
CLEAN = {
    ".gitignore": "/build/\n/data/*.txt\n__pycache__/\n",
    "CMakeLists.txt": CMAKE,
    "README.md": "# Top\n\nSee [rooms](src/README.md#rooms), `scripts/go` and `build/thing`.\n\n"
                 "```\nscripts/go --fast\n```\n",
    "scripts/README.md": "# Scripts\n",
    "scripts/go": "#!/usr/bin/env bash\necho \"${build}/root\" ./work\n",
    "src/README.md": ROOMS,
    "src/main.cpp": '#include "cli/all.h"\n#include "run/run.h"\n',
    "src/base/format.h": "// Text.\n#pragma once\n#include <fmt/core.h>\n",
    "src/cli/all.h": '// All.\n#pragma once\n#include "plan/plan.h"\n#include "run/run.h"\n',
    "src/plan/plan.h": '// Plan.\n#pragma once\n#include "base/format.h"\n',
    "src/plan/state.h": "// State.\n#pragma once\nstruct State;\n",
    "src/program/program.h": "// Program.\n#pragma once\n#include <vector>\n",
    "src/run/run.h": '// Run.\n#pragma once\n#include "program/program.h"\n#include "run/run.h"\n'
                     '#include <sys/mman.h>\n',
    "src/run/lock.h": "// Lock.\n#pragma once\nint state_of_lock();\n",
    **{f"src/{room}/README.md": f"# {room}\n" for room in ("base", "cli", "plan", "program", "run")},
}


class CheckTest(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)
        for name, content in CLEAN.items():
            self.write(name, content)

    def write(self, name, content):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)

    def append(self, name, line):
        self.write(name, CLEAN.get(name, "") + line + "\n")

    def expect(self, check, *parts):
        """Exactly one finding, which holds all parts."""
        found = list(check.findings(self.root))
        self.assertEqual(len(found), 1, found)
        for part in parts:
            self.assertIn(part, found[0])


class Clean(CheckTest):
    def test_a_clean_repository_has_no_findings(self):
        for check in (check_catalogue, check_families, check_glossary, check_includes, check_rooms, check_text, check_words):
            self.assertEqual(list(check.findings(self.root)), [])

    def test_ignored_files_are_not_checked(self):
        self.write("build/notes.md", "TO" + "DO\n")
        self.write("data/text.txt", "FIX" + "ME\n")
        self.assertNotIn(pathlib.PurePosixPath("build/notes.md"), repository.files(self.root))
        self.assertEqual(list(check_text.findings(self.root)), [])


class Catalogue(CheckTest):
    def setUp(self):
        super().setUp()
        self.write("tests/unit/a_test.cpp", "TEST(Row1, works) {}\nTEST_F(Rows,\n       row_02_too) {}\n")
        self.rows = {row: "`Row1.*`" for row in check_catalogue.ROWS}

    def write_table(self):
        lines = [f"| {row} | what | {tests} |" for row, tests in self.rows.items()]
        self.write("tests/README.md", "\n".join(["# Tests", check_catalogue.HEADING, *lines, ""]))

    def test_a_whole_table_has_no_findings(self):
        self.rows[2] = "`*.row_02_*`, `Rows.row_02_too`"
        self.write_table()
        self.assertEqual(check_catalogue.findings(self.root), [])

    def test_a_row_that_is_missing(self):
        del self.rows[7]
        self.write_table()
        self.expect(check_catalogue, "tests/README.md:2", "row 7 is missing")

    def test_a_row_without_a_test(self):
        self.rows[3] = "soon"
        self.write_table()
        self.expect(check_catalogue, "row 3 names no test")

    def test_a_test_that_is_not_there(self):
        self.rows[4] = "`Row1.*`, `Row1.fails`"
        self.write_table()
        self.expect(check_catalogue, "tests/README.md:6", "there is no test Row1.fails")


class General(CheckTest):
    def setUp(self):
        super().setUp()
        self.write("src/op/ops.h", 'struct Conv {\n  FOURFOLD_OP_ROW(Conv, "conv");\n};\n')
        self.write("src/op/elementwise.h", 'struct Relu {\n  FOURFOLD_ELEMENTWISE_ROW(Relu, "relu");\n};\n')

    def test_rooms_that_know_ops_may_name_them(self):
        for path in ("src/op/table.cpp", "src/graph/gradients.cpp", "src/kernels/conv.cpp", "src/compile/fuse_conv.cpp"):
            self.write(path, "if (op.is<op::Conv>()) return;\n")
        self.write("src/plan/other.cpp", "// as op::Conv has it\nauto x = op::ConvLike{};\n")
        found = [f for f in check_general.findings(self.root) if "EXCEPTIONS" not in f]
        self.assertEqual(found, [])

    def test_another_room_that_names_an_op(self):
        for name in ("Conv", "Relu"):
            self.write("src/plan/other.cpp", f"int a;\nif (op.get_if<op::{name}>()) return;\n")
            found = [f for f in check_general.findings(self.root) if "EXCEPTIONS" not in f]
            self.assertEqual(len(found), 1)
            self.assertIn(f"src/plan/other.cpp:2: op::{name}", found[0])
            self.assertIn("ask the row what it is", found[0])

    def expect_one(self, path, text, *parts):
        self.write(path, text)
        found = [f for f in check_general.findings(self.root) if "EXCEPTIONS" not in f]
        self.assertEqual(len(found), 1, found)
        for part in parts:
            self.assertIn(part, found[0])

    def test_another_room_that_knows_an_op_by_its_name(self):
        self.expect_one("src/cli/other.cpp", 'int a;\nif (op::name(op) == "relu") return;\n', "src/cli/other.cpp:2", '"relu"')

    def test_another_room_that_reads_an_attribute(self):
        self.write("src/op/ops.h", 'struct Conv {\n  FOURFOLD_OP_ROW(Conv, "conv", stride,\n                  rows);\n};\n')
        self.write("src/report/table.h", "struct Table { int rows; };\n")
        for line in ("return row.stride + table.rows;", "return row.stride;", "f(row->stride, 1);"):
            self.expect_one("src/run/other.cpp", line + "\n", "src/run/other.cpp:1", "stride is an attribute")
        self.write("src/run/other.cpp", "int stride = 0;\nreturn own.stride;\n")
        self.assertEqual([f for f in check_general.findings(self.root) if "EXCEPTIONS" not in f], [])

    def test_a_sixth_file_that_names_ops(self):
        with unittest.mock.patch.dict(check_general.EXCEPTIONS, {"src/run/sixth.cpp": "it is convenient"}):
            found = [f for f in check_general.findings(self.root) if "at most" in f]
        self.assertEqual(len(found), 1, found)
        self.assertIn("let the row state the fact", found[0])

    def test_a_word_of_a_model_in_a_room_that_knows_none(self):
        for line in ("int token_count = 0;", "enum class Kind { hiddenSize };", 'if (name == "blocks.0.attn.out") return;',
                     "int picture_rows = 0;", "int pool_size = 0;"):
            self.expect_one("src/plan/other.cpp", line + "\n", "src/plan/other.cpp:1", "is a word of a model")
        self.write("src/plan/other.cpp", 'header(); // of a token\nfail("no tokens are left here");\n')
        self.write("src/train/other.cpp", "int tokens;\n")
        self.assertEqual([f for f in check_general.findings(self.root) if "EXCEPTIONS" not in f], [])

    def test_a_program_that_is_named_by_its_word(self):
        self.write("src/op/program_kind.cpp", 'case 0:\n  return "init";\ncase 1:\n  return "train";\n')
        for line in ('use(bundle().at("train"));', "simulate(job(rank),\n         \"train\", cluster);", 'Builder b("train");',
                     'if (text == "train") return;'):
            number = 1 + line.count("\n")
            self.expect_one("src/run/other.cpp", line + "\n", f"src/run/other.cpp:{number}", "write op::ProgramKind::train")
        self.write("src/run/other.cpp", 'use(at(0), "train");\nJson{{"init", 1}}; // at("train")\n')
        self.write("src/main.cpp", 'return argv[1] == "train";\n')
        self.assertEqual([f for f in check_general.findings(self.root) if "EXCEPTIONS" not in f], [])


class Families(CheckTest):
    def setUp(self):
        super().setUp()
        self.write("src/model/model_spec.h", "#define FAMILIES(FAMILY) \\\n  FAMILY(gpt, GptSpec) \\\n  FAMILY(vgg, VggSpec)\n")

    def test_a_family_and_its_schema_may_name_it(self):
        for path in ("src/model/vgg.cpp", "src/config/schema_vgg.cpp"):
            self.write(path, "return config.vgg.widths == VggSpec{}.widths;\n")
        self.write("src/plan/name.cpp", 'return tensor.find(".gpt.") != tensor.npos || run == "gpt-tiny";\n')
        self.write("src/interop/gpt2.h", "void write(const model::GptSpec& spec);\n")
        self.write("src/job/other.cpp", "// as a GptSpec has it\nauto a = tokenizer::TokenizerKind::gpt2, b = config.family();\n")
        self.assertEqual(list(check_families.findings(self.root)), [])

    def test_a_question_for_the_family_elsewhere(self):
        for line, named in (("if (config.kind == model::Kind::gpt) return;", "Kind::gpt"), ("return config->gpt.width;", "->gpt"),
                            ("use(&Config::vgg);", "Config::vgg"), ("std::get_if<model::VggSpec>(&spec);", "VggSpec"),
                            ('return word == "vgg";', '"vgg"')):
            for path in ("src/job/other.cpp", "src/config/schema_gpt2.cpp"):
                self.write(path, "int a;\n" + line + "\n")
                self.expect(check_families, f"{path}:2: {named} asks which family", "ask model::Family")
                (self.root / path).unlink()

    def test_a_question_for_the_format_elsewhere(self):
        self.write("src/data/format.h", "enum class Format : std::uint8_t {\n  text,\n  llmc,\n};\n")
        self.write("src/data/source.cpp", "if (spec.format == Format::llmc) return;\n")
        self.write("src/cli/commands/eval.cpp", "config.data.format = data::Format::text;\n")
        self.assertEqual(list(check_families.findings(self.root)), [])
        self.write("src/job/other.cpp", "if (spec.format == data::Format::llmc) return;\n")
        self.expect(check_families, "src/job/other.cpp:1: Format::llmc asks which format", "ask data::row_of")

    def test_the_schema_of_another_family(self):
        self.write("src/config/schema_gpt.cpp", "return config.vgg.widths;\n")
        self.expect(check_families, "src/config/schema_gpt.cpp:1: .vgg asks")


class Settled(CheckTest):
    def test_a_section_that_lacks_what_others_say_of_it(self):
        self.write("src/job/other.cpp", "auto a = open(config.data_spec());\nif (config.train.steps > 0) config.plan.grid = {};\n"
                                        "plan::PlanSpec& spec = config.plan;\n")
        self.assertEqual(list(check_settled.findings(self.root)), [])
        for line in ("open(config.data);", "train(job.config.train, facts);", "const auto spec = config.plan;"):
            self.write("src/job/other.cpp", "int a;\n" + line + "\n")
            self.expect(check_settled, "src/job/other.cpp:2: config.", "_spec()")

    def test_a_function_that_changes_what_it_is_given(self):
        self.write("src/job/other.cpp", "int ranks(const Job& job, const config::Config& config, const plan::Plan& plan);\n")
        self.write("src/config/load.cpp", "void derive(Config& config);\n")
        self.assertEqual(list(check_settled.findings(self.root)), [])
        for line in ("void set(config::Config& config);", "void set(int a, Job& job) {", "void set(\n    plan::Plan& plan, int a);",
                     "void set(const Job& job, config::Config& config);"):
            self.write("src/job/other.cpp", "int a;\n" + line + "\n")
            self.expect(check_settled, "src/job/other.cpp:2: set takes")

    def test_a_function_that_makes_a_run_beside_those_that_are_listed(self):
        self.write("src/job/settle.h", "config::Settled settle(const config::Config& config, const Known& known);\n")
        self.write("src/config/uses.h", "Config for_writing(const Config& trained);\n")
        self.write("src/search/stages.cpp", "std::variant<PlannedModel, Infeasible> planned(const Spec& spec) const {\n")
        self.assertEqual(list(check_settled.findings(self.root)), [])
        for line in ("config::Config edited(const config::Config& config);", "std::optional<config::Settled> edited(int ranks) {",
                     "std::variant<plan::Plan, plan::Infeasible> edited(const Spec& spec);"):
            self.write("src/job/other.h", "int a;\n" + line + "\n")
            self.expect(check_settled, "src/job/other.h:2: edited returns")

    def test_more_than_five_functions_that_make_a_run(self):
        with unittest.mock.patch.dict(check_settled.SOURCES, {"sixth": "one more"}):
            self.expect(check_settled, "SOURCES has 6 functions")


class Loops(CheckTest):
    LONG = """namespace fourfold {
int count(
    int most) {
  for (int i = 0; i < most; ++i) {
    const int kept = i;
    if (kept > 0)
      executor.run("evaluate", {}, &feeder);
  }
}
}  // namespace fourfold
"""

    def test_a_loop_that_may_last_and_is_not_listed(self):
        self.write("src/run/kernel.cpp", self.LONG)  # the step itself
        self.write("src/plan/once.cpp", self.LONG.replace("for (int i = 0; i < most; ++i) {", "{"))
        self.assertEqual(list(check_loops.findings(self.root)), [])
        self.write("src/plan/other.cpp", self.LONG)
        found = list(check_loops.findings(self.root))
        self.assertEqual(len(found), 1, found)
        self.assertIn("src/plan/other.cpp:7: a loop in count may last", found[0])

    def test_a_loop_that_is_listed_and_gone(self):
        with unittest.mock.patch.dict(check_loops.LOOPS, {"src/plan/other.cpp: count": "asked before each"}):
            self.write("src/plan/other.cpp", self.LONG)
            self.assertEqual(list(check_loops.findings(self.root)), [])
            self.write("src/plan/other.cpp", "int a;\n")
            self.assertIn("take it out", "".join(check_loops.findings(self.root)))


class WhatIsAdded(unittest.TestCase):
    """What test_additions.py does before it builds."""

    def test_finds_its_places_touches_few_files_and_passes_the_checks_of_sources(self):
        root = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, root)
        test_additions.copy(test_additions.ROOT, root)
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            rows = test_additions.add_all(root, additions.MOST_FILES)
            test_additions.check_sources(root)
        self.assertEqual(len(rows), 8)
        for name, most in additions.MOST_FILES.items():
            self.assertRegex(said.getvalue(), rf"(?m)^{name}: .*\d files, of {most} at most: src/")


class Additions(CheckTest):
    """The script that adds to a copy of the tree."""
    PIECES = "An op.\n\n== src/op/rows.h, after: #define ROWS(ROW)\n  ROW(Relu) \\\n== src/op/relu.cpp, new\nint relu;\n"

    def setUp(self):
        super().setUp()
        self.write("src/op/rows.h", "#define ROWS(ROW)   \\\n  ROW(Gelu)\n")
        self.added = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.added)
        (self.added / "relu.txt").write_text(self.PIECES)
        for name, value in (("ADDED", self.added), ("MOST_FILES", {"relu": 2})):
            patch = unittest.mock.patch.object(additions, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def refused(self, *parts):
        with self.assertRaises(additions.Failure) as raised:
            additions.add(self.root, "relu")
        for part in parts:
            self.assertIn(part, str(raised.exception))

    def test_lines_are_found_whatever_their_columns(self):
        additions.add(self.root, "relu")
        self.assertEqual((self.root / "src/op/rows.h").read_text(), "#define ROWS(ROW)   \\\n  ROW(Relu) \\\n  ROW(Gelu)\n")
        self.assertEqual((self.root / "src/op/relu.cpp").read_text(), "int relu;\n")

    def test_a_line_that_is_gone_is_named(self):
        self.write("src/op/rows.h", "#define LIST(ROW) \\\n  ROW(Gelu)\n")
        self.refused("relu.txt:3:", "src/op/rows.h has 0 lines '#define ROWS(ROW)'", "name the line after which")

    def test_a_file_that_is_gone_is_named(self):
        (self.root / "src/op/rows.h").unlink()
        self.refused("relu.txt:3:", "there is no src/op/rows.h")

    def test_an_added_file_that_is_there_already(self):
        self.write("src/op/relu.cpp", "")
        self.refused("relu.txt:5:", "src/op/relu.cpp is there already")

    def test_an_op_that_touches_too_many_files(self):
        additions.MOST_FILES["relu"] = 1
        self.refused("relu touches 2 files, and 1 must do")


class Includes(CheckTest):
    def test_a_room_outside_the_third_column(self):
        self.append("src/plan/plan.h", '#include "program/program.h"')
        self.expect(check_includes, "src/plan/plan.h:4:", "plan/ may not include program/", "move what both need")

    def test_running_a_program_does_not_see_plans(self):
        self.append("src/run/run.h", '#include "plan/plan.h"')
        self.expect(check_includes, "src/run/run.h:6:", "run/ may not include plan/", "move the fact into the program")

    def test_a_room_without_a_row(self):
        self.append("src/run/run.h", '#include "extra/thing.h"')
        self.expect(check_includes, "'extra' is not a room", "add a row")

    def test_a_name_whose_header_is_not_included(self):
        self.append("src/plan/plan.h", "inline int made = 0;")
        self.write("tests/uses.cpp", '#include "cli/all.h"\nconst int seen = plan::made;  // not plan::spoken\n'
                                     'const std::string text = "plan::said";\nconst int also = plan::unmade;\n')
        self.expect(check_includes, "tests/uses.cpp:4:", "names plan::unmade", "include its header of plan/")

    def test_an_include_without_its_room(self):
        self.append("src/run/run.h", '#include "other.h"')
        self.expect(check_includes, "src/run/run.h:6:", '"room/other.h"')

    def test_a_library_outside_its_wrapper(self):
        self.append("src/run/run.h", "#  include <fmt/format.h>")
        self.expect(check_includes, "src/run/run.h:6:", "fmt belong to src/base/format.h alone")

    def test_a_library_of_one_file_in_two(self):
        self.append("src/base/format.h", "#include <xxhash.h>")
        self.append("src/run/run.h", "#include <xxhash.h>")
        self.expect(check_includes, "src/run/run.h:6:", "xxHash belong to src/base/format.h alone")

    def test_standard_output_past_its_wrapper(self):
        self.append("src/run/run.h", 'inline void f() { std::printf("%d", 1); }  // printf(')
        self.expect(check_includes, "src/run/run.h:6:", "call print or print_text")

    def test_a_library_without_a_wrapper(self):
        self.append("src/run/run.h", "#include <boost/any.hpp>")
        self.expect(check_includes, "<boost/any.hpp>", "wrap it in one file")

    def test_a_header_without_guard(self):
        self.write("src/run/bare.h", "// Bare.\n")
        self.expect(check_includes, "src/run/bare.h", "#pragma once")

    def test_a_cycle_in_the_table(self):
        self.write("src/README.md", ROOMS.replace("| `base` | Errors. | - |", "| `base` | Errors. | cli |"))
        found = list(check_includes.findings(self.root))
        self.assertTrue(any("'base' reaches itself" in finding for finding in found), found)

    def test_a_table_that_lets_run_reach_plan(self):
        self.write("src/README.md", ROOMS.replace("| `program` | The language. | base |",
                                                  "| `program` | The language. | base, plan |"))
        self.expect(check_includes, "'run' runs programs and must not reach plan")

    def test_a_table_that_names_an_unknown_room(self):
        self.write("src/README.md", ROOMS.replace("| base, program |", "| base, program, comm |"))
        self.expect(check_includes, "'run' may include 'comm', which has no row")


class Rooms(CheckTest):
    def test_a_room_without_a_page(self):
        (self.root / "src/plan/README.md").unlink()
        self.expect(check_rooms, "src/plan: has no README.md")

    def test_a_user_folder_without_a_page(self):
        (self.root / "scripts/README.md").unlink()
        self.expect(check_rooms, "scripts: has no README.md")

    def test_a_folder_without_a_row(self):
        self.write("src/extra/README.md", "# Extra\n")
        self.expect(check_rooms, "src/extra: has no row")

    def test_a_row_without_a_folder(self):
        self.append("src/README.md", "| `comm` | Groups. | base |")
        self.expect(check_rooms, "'comm' has no files")

    def test_a_dead_link(self):
        self.append("src/run/README.md", "See [the plan](../plan/gone.md).")
        self.expect(check_rooms, "src/run/README.md:2:", "'../plan/gone.md' leads nowhere")

    def test_a_file_in_backticks_that_is_gone(self):
        self.append("src/run/README.md", "Read `run.h`, `program/program.h`, then `run/gone.{h,cpp}`.")
        found = list(check_rooms.findings(self.root))
        self.assertEqual([finding.split(" ")[1] for finding in found], ["`run/gone.h`", "`run/gone.cpp`"])

    def test_a_command_that_is_gone(self):
        self.append("README.md", "```\nscripts/gone now\n```")
        self.expect(check_rooms, "README.md:9:", "`scripts/gone` does not exist")

    def test_what_only_resembles_a_path_is_left_alone(self):
        self.append("README.md", "`a/b`, `key/value`, `model.safetensors`, `build/fourfold train`, `src/*/README.md`, "
                                 "`--x=src/no`")
        self.assertEqual(list(check_rooms.findings(self.root)), [])


class Words(CheckTest):
    def test_behind_is_for_places(self):
        self.append("src/run/run.h", "// It runs behind the update.")
        self.expect(check_words, "src/run/run.h:6:", "'behind' is for places")

    def test_places_may_be_behind_something(self):
        for words in ("The library stands behind one file.", "It leaves nothing behind.", "A reduction that hides behind it."):
            self.append("src/run/run.h", "// " + words)
            self.assertEqual(list(check_words.findings(self.root)), [])

    def test_code_and_texts_of_programs_are_left_alone(self):
        self.append("src/run/run.h", 'int behind = f("// behind");')
        self.assertEqual(list(check_words.findings(self.root)), [])

    def test_a_comment_without_a_subject(self):
        for word in ("Of", "That", "Whether", "Since"):
            self.append("src/run/run.h", f"/// {word} the last run.")
            self.expect(check_words, "src/run/run.h:6:", f"begins with '{word}'", "name its subject")

    def test_a_line_in_the_middle_of_a_comment_may_begin_with_any_word(self):
        self.append("src/run/run.h", "/// The sizes\n/// Of the last run, that is.")
        self.assertEqual(list(check_words.findings(self.root)), [])

    def test_those_of_twice(self):
        self.append("README.md", "It has those of one and those of the other.")
        self.expect(check_words, "README.md:8:", "stands twice")


    def test_the_name_of_a_test_in_camel_case(self):
        for macro in ("TEST(Sums, AreExact) {", "TEST_P(Sums,\n       are_Exact) {", "TYPED_TEST(Sums, Are) {"):
            self.write("tests/unit/a_test.cpp", "// Sums.\n\n" + macro + "}\n")
            self.expect(check_words, "tests/unit/a_test.cpp:3: the test", "is no sentence in snake_case")

    def test_names_of_suites_and_tests_that_gtest_leaves_out(self):
        self.write("tests/unit/a_test.cpp", "TEST(Sums, are_exact) {}\nTEST(Sums, DISABLED_are_small) {}\n")
        self.assertEqual(list(check_words.findings(self.root)), [])


class Glossary(CheckTest):
    def test_a_word_in_a_room_that_does_not_have_its_meaning(self):
        for code in ("int state = 0;", "  for (const Box& state : all) {", "void read(Box* state, int x);", "int first_state() {",
                     "struct MyState {", "std::vector<int> states_;", "const auto& [rank, state] = x;", "Box state{1};"):
            self.append("src/program/program.h", code)
            self.expect(check_glossary, "src/program/program.h:4:", "has the word 'state", "does not give program/ (state: what a run keeps)")

    def test_each_word_of_a_row_is_kept(self):
        self.append("src/run/run.h", "bool is_blocked();")
        self.expect(check_glossary, "src/run/run.h:6: 'is_blocked' has the word 'blocked'")

    def test_a_word_that_no_room_may_have(self):
        self.append("src/run/run.h", "int num_parts = 0;")
        self.expect(check_glossary, "src/run/run.h:6: 'num_parts' has the word 'parts'")

    def test_a_word_in_its_room_or_any_room_and_the_name_of_an_exception(self):
        for code in ("int state = 0;", "int format(int x);", "int count_state_of_locks();", "bool is_state_of_lock();"):
            self.append("src/run/run.h", code)
            self.assertEqual(list(check_glossary.findings(self.root)), [])

    def test_uses_texts_comments_and_words_within_words_are_left_alone(self):
        for code in ("// A state", 'f("int state = 0");', "return state;", "x.state = 1;", "op::State::moment;", "int estate = 0;",
                     "if (a && state) return;", "case state: break;", "class X;", "#include <state>"):
            self.append("src/program/program.h", code)
            self.assertEqual(list(check_glossary.findings(self.root)), [], code)

    def test_an_exception_that_nothing_needs(self):
        self.write("src/run/lock.h", "// Lock.\n#pragma once\n")
        self.expect(check_glossary, "src/README.md:13:", "'state_of_lock' of 'state'", "take it out")
        self.write("src/run/lock.h", CLEAN["src/run/lock.h"])
        self.write("src/plan/state.h", "// Plan.\n#pragma once\n")
        self.expect(check_glossary, "src/README.md:13:", "'plan' of 'state'", "take it out")

    def test_a_glossary_that_is_gone(self):
        self.write("src/README.md", ROOMS.split("| word")[0])
        self.expect(check_glossary, "src/README.md: it has no glossary")


class Text(CheckTest):
    def test_a_path_of_one_machine(self):
        for path in ("/ro" + "ot/data", "/ho" + "me/ada", "'/wo" + "rk/main'", "/tm" + "p/b1/x"):
            self.append("src/run/run.h", "// " + path)
            self.expect(check_text, "src/run/run.h:6:", "path of one machine")

    def test_a_note_left_behind(self):
        self.append("scripts/go", "# FIX" + "ME: later")
        self.expect(check_text, "scripts/go:3:", "left behind")

    def test_files_that_are_not_text_are_left_alone(self):
        (self.root / "src/blob.bin").write_bytes(b"\0\xff /ro" + b"ot/x")
        self.assertEqual(list(check_text.findings(self.root)), [])

    def test_warnings_that_are_not_errors(self):
        self.write("CMakeLists.txt", CMAKE.replace(" ON)", " OFF)"))
        self.expect(check_text, "FOURFOLD_WERROR is not ON by default")

    def test_a_warning_that_is_not_asked_for(self):
        self.write("CMakeLists.txt", CMAKE.replace(" -Wshadow", ""))
        self.expect(check_text, "-Wshadow is not among the compile options")

    def test_a_build_folder_without_errors(self):
        self.write("build/CMakeCache.txt", "FOURFOLD_WERROR:BOOL=OFF\n")
        self.expect(check_text, "build/CMakeCache.txt", "-DFOURFOLD_WERROR=ON")


class PlantedFaults(unittest.TestCase):
    def test_each_fits_the_sources(self):
        try:
            planted_faults.read_faults(pathlib.Path(planted_faults.__file__).with_suffix(".toml"))
        except planted_faults.Failure as failure:
            self.fail(str(failure))


class Sizes(CheckTest):
    def test_functions_are_found_with_their_lines(self):
        source = ('namespace a {\nstruct Pair {\n  int sum() const { return x + y; }\n  int x = 0, y{0};\n};\n'
                  '// void no() {\nint outer(int n) {\n  if (n > 0) {\n    n = 2;\n  }\n'
                  '  auto f = [](int k) { return k; };\n'
                  '  return f(n) + int("{"[0]);\n}\n}\n')
        self.assertEqual(list(list_sizes.functions(source)), [("sum", 3, 1), ("outer", 7, 7)])

    def test_longest_come_first(self):
        self.append("src/plan/plan.h", "\n" * 50)
        of_files, _ = list_sizes.sizes(self.root)
        self.assertEqual(of_files[0][1], "src/plan/plan.h")


if __name__ == "__main__":
    unittest.main()
