// Programs as text that people read and the parser reads back. Not a serialisation for speed, and
// not the verifier: text that parses may still be a wrong program.
//
// The form: a header (rank, regions, meshes, groups, streams, feeds), the table of buffers, then
// the tasks with one line per instruction: stream, name, dtype, operands "a, b -> out", attributes,
// "by IMPLEMENTATION". "&name" marks an operand that is read and written. What stands after " #"
// is for people and is not read. A task equal to an earlier one up to its micro-batch and a shift
// of its events prints as "task forward(1) = forward(0), events +7".
//
// A job begins with the version of the form, "job text version 1", and its ranks, "ranks 4..7 class
// 1 peers 0 2 by 1": ranks 4 to 7 are of class 1, the peers of rank 4 are 0 and 2, and those of
// each next rank are one higher. The bundles follow.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "program/job.h"

namespace fourfold::program {

/// The version of a job's text that to_text writes and parse_job reads: another number for each
/// change after which one does not read what the other wrote.
constexpr int job_text_version = 1;

/// The text of a program. parse_program gives back an equal value. Cost: linear in the text.
/// Requires what the form can carry, else InternalError: ids in range; names that are unique and
/// made of letters, digits and _.#/- (first a letter, digit or _); tasks in order that cover all
/// instructions; a slice per operand; a sharding with either no dims or all of them, some cut.
std::string to_text(const Program& program);
std::string to_text(const Bundle& bundle);
/// Which class each rank is of and who its peers are, then the bundle of each class.
std::string to_text(const Job& job);

/// Reads what to_text writes, with any spacing. Throws UserError (bad_config), one line:
/// "file:line: what was read, what was expected". Checks names, ids and the form, not the meaning:
/// that is verify.h. A job's text of another version is refused at its first line.
Program parse_program(std::string_view text, std::string_view file_name);
Bundle parse_bundle(std::string_view text, std::string_view file_name);
Job parse_job(std::string_view text, std::string_view file_name);

/// One instruction as faults, logs and timelines name it: "contract h1, w -> p1"; of more than
/// eight operands on a side the first four: "a, b, c, d and 5 more". Any program will do: an id
/// without a name prints as "?7".
std::string short_text(const Program& program, const Instruction& instruction);
/// "forward(0)", "update".
std::string short_text(const Task& task);

}  // namespace fourfold::program
