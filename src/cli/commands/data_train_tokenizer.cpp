#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/shared_options.h"
#include "data/text_source.h"
#include "job/job.h"
#include "screen/print.h"
#include "screen/progress_line.h"
#include "tokenizer/line_sample.h"
#include "tokenizer/train_sentencepiece.h"

namespace fourfold::cli {
namespace {

struct TrainTokenizerArguments {
  std::vector<std::string> inputs;
  std::string output, field = "text";
  std::int64_t vocab_size = 0, sample_mib = 1024;
  double coverage = 0.9995;
  int threads = 1;
  bool overwrite = false;
  comm::Variable variable;
};

void list_options(OptionList& options, TrainTokenizerArguments& given) {
  given.variable = options.caller().variable;
  options.add("INPUT", given.inputs,
              "Texts, folders of texts, JSON lines; also packed by gzip or zstd",
              {.is_required = true});
  options.add("-o,--output", given.output, "The .model file to write", {.is_required = true});
  options.add("--vocab-size", given.vocab_size,
              "Tokens; the result may have fewer, where the text has no more",
              {.is_required = true, .within = Whole{260, 1000000}});
  options.add("--coverage", given.coverage,
              "Share of the characters that get a token of their own; others become bytes",
              {.shows_default = true, .within = Real{0.5, 1}});
  options.add("--sample", given.sample_mib,
              "Learn from at most so many MiB of the text, lines chosen evenly",
              {.shows_default = true, .within = Whole{1, 1 << 20}});
  add_field_option(options, given.field);
  options.add("--threads", given.threads,
              "Threads that prepare the lines; 0: one a core. The file says how many there were",
              {.shows_default = true, .within = Whole{0, 1024}});
  options.add("--overwrite", given.overwrite, "Replace a file that is there");
}

/// Refuses what would fail only after minutes of learning.
void check_output(const TrainTokenizerArguments& arguments) {
  const std::string& file = arguments.output;
  if (file_exists(file) && !arguments.overwrite)
    throw UserError(ExitCode::output_in_use,
                    format("{} is there already; choose another name, or pass --overwrite", file));
  const std::string folder = absolute_path(join_path(file, ".."));
  if (!file_exists(folder))
    throw UserError(ExitCode::storage,
                    format("{}: cannot be written: there is no folder {}; make it", file, folder));
  if (::access(folder.c_str(), W_OK) != 0)
    throw UserError(ExitCode::storage,
                    format("{}: cannot be written: you may not write in {}; choose another place",
                           file, folder));
}

tokenizer::LineSample read_lines(const TrainTokenizerArguments& arguments) {
  tokenizer::LineSample lines(arguments.sample_mib << 20, tokenizer::most_sentencepiece_line);
  data::TextSource source(arguments.inputs, arguments.field);
  screen::ProgressLine progress(
      screen::terminal_of(STDOUT_FILENO, screen::ColorChoice::automatic, arguments.variable));
  while (const auto piece = source.next()) {
    lines.add(piece->text, piece->place);
    if (piece->ends_document) lines.finish();
    const auto all = static_cast<double>(std::max<std::int64_t>(source.bytes_in_all(), 1));
    progress.show(static_cast<double>(source.bytes_read()) / all,
                  format("{} of {} read, {} lines", format_bytes(source.bytes_read()),
                         format_bytes(source.bytes_in_all()), format_grouped(lines.lines_seen())));
  }
  lines.finish();
  for (const std::string& note : source.notes()) screen::print("%s\n", note.c_str());
  return lines;
}

void say_lines(const tokenizer::LineSample& lines) {
  screen::print("%s lines, %s", format_grouped(lines.lines_seen()).c_str(),
                format_bytes(lines.bytes_seen()).c_str());
  if (lines.bytes_kept() < lines.bytes_seen() - lines.lines_seen())
    screen::print(", of which %s are learnt from", format_bytes(lines.bytes_kept()).c_str());
  if (lines.lines_cut() > 0)
    screen::print("; %s longer than %zu bytes were cut", format_grouped(lines.lines_cut()).c_str(),
                  tokenizer::most_sentencepiece_line);
  screen::print("\nlearning, for minutes where there is much text\n");
  std::fflush(stdout);
}

void data_train_tokenizer(const TrainTokenizerArguments& arguments) {
  const auto begin = std::chrono::steady_clock::now();
  check_output(arguments);
  tokenizer::LineSample lines = read_lines(arguments);
  say_lines(lines);
  const tokenizer::SentencePieceSpec spec{.vocab_size = arguments.vocab_size,
                                          .coverage = arguments.coverage,
                                          .threads = job::resolve_threads(arguments.threads)};
  const tokenizer::TrainedSentencePiece trained = tokenizer::train_sentencepiece(spec, lines);
  write_file_atomic(arguments.output, trained.model);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const std::string asked = trained.vocab_size == arguments.vocab_size
                                ? ""
                                : format(" (of {} asked for: the text has no more)",
                                         format_grouped(arguments.vocab_size));
  screen::print("%s: %s tokens%s, in %s\n", arguments.output.c_str(),
                format_grouped(trained.vocab_size).c_str(), asked.c_str(),
                format_duration(seconds).c_str());
  if (trained.reserved_lines > 0)
    screen::print(
        "%s cut at U+2585, which sentencepiece reserves: no piece has it, and texts with "
        "it become bytes there\n",
        counted(trained.reserved_lines, "line").c_str());
  screen::print("use it with data.tokenizer: sentencepiece, data.tokenizer_path: %s\n",
                arguments.output.c_str());
}

}  // namespace

void add_data_train_tokenizer(Commands& commands) {
  commands.add(
      {"data train-tokenizer", After{"tokenize"}, "Learn a sentencepiece tokenizer from texts",
       "data train-tokenizer data/bible.txt -o data/bible.model --vocab-size 1000"},
      list_options, data_train_tokenizer);
}

}  // namespace fourfold::cli
