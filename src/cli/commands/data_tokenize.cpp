#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>

#include "base/error.h"
#include "base/file.h"
#include "base/file_system.h"
#include "base/format.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/shared_options.h"
#include "data/tokenize.h"
#include "data/work_lock.h"
#include "job/job.h"
#include "screen/print.h"
#include "screen/progress_line.h"
#include "tokenizer/hub_folder.h"
#include "tokenizer/tokenizer.h"

namespace fourfold::cli {
namespace {

struct TokenizeArguments {
  std::vector<std::string> inputs;
  std::string output, tokenizer, tokenizer_path, field = "text";
  int jobs = 0;
  bool append_eod = false, overwrite = false;
  comm::Variable variable;
};

void list_options(OptionList& options, TokenizeArguments& given) {
  given.variable = options.caller().variable;
  options.add("INPUT", given.inputs,
              "Texts, folders of texts, JSON lines; also packed by gzip or zstd",
              {.is_required = true});
  options.add("-o,--output", given.output,
              "PREFIX: the set becomes PREFIX.bin, PREFIX.idx and PREFIX.json",
              {.is_required = true});
  options.add("--tokenizer", given.tokenizer, "char, byte, sentencepiece, gpt2 or hub",
              {.is_required = true, .one_of = "char,byte,sentencepiece,gpt2,hub"});
  options.add("--tokenizer-path", given.tokenizer_path,
              "sentencepiece: its .model; gpt2: the folder of vocab.json and merges.txt; hub: the "
              "folder of tokenizer.json");
  add_field_option(options, given.field);
  options.add("--jobs", given.jobs, "Threads; 0: one a core",
              {.shows_default = true, .within = Whole{0, 1024}});
  options.add("--append-eod", given.append_eod,
              "End each document with the tokenizer's end-of-document token");
  options.add("--overwrite", given.overwrite, "Replace a set that is there");
}

tokenizer::TokenizerKind kind_of(const std::string& name) {
  if (name == "char") return tokenizer::TokenizerKind::character;
  if (name == "byte") return tokenizer::TokenizerKind::byte;
  if (name == "sentencepiece") return tokenizer::TokenizerKind::sentencepiece;
  if (name == "hub") return tokenizer::TokenizerKind::hub;
  require(name == "gpt2", "the command line admits the names of tokenizers");
  return tokenizer::TokenizerKind::gpt2;
}

/// Says where the files of its folder disagree.
std::unique_ptr<tokenizer::Tokenizer> tokenizer_of_hub(const std::string& path) {
  tokenizer::HubFolder hub = tokenizer::load_hub_tokenizer(path);
  for (const std::string& note : hub.notes) screen::print("note: %s\n", note.c_str());
  return std::move(hub.tokenizer);
}

std::unique_ptr<tokenizer::Tokenizer> tokenizer_for(const TokenizeArguments& arguments) {
  const tokenizer::TokenizerKind kind = kind_of(arguments.tokenizer);
  if (kind == tokenizer::TokenizerKind::character)
    return data::characters_of(arguments.inputs, arguments.field);
  const bool needs_path = kind != tokenizer::TokenizerKind::byte;
  if (needs_path && arguments.tokenizer_path.empty())
    throw UserError(
        ExitCode::bad_config,
        format("--tokenizer {} needs --tokenizer-path: {}", arguments.tokenizer,
               kind == tokenizer::TokenizerKind::gpt2 ? "a folder with vocab.json and merges.txt"
               : kind == tokenizer::TokenizerKind::hub
                   ? "a folder with tokenizer.json"
                   : "a .model file, as `fourfold data train-tokenizer` writes"));
  if (kind == tokenizer::TokenizerKind::hub) return tokenizer_of_hub(arguments.tokenizer_path);
  return tokenizer::load_tokenizer(kind, arguments.tokenizer_path);
}

void print_result(const data::TokenizeResult& result, const std::string& output, double seconds,
                  std::int64_t bytes) {
  const double rate = seconds > 0 ? static_cast<double>(bytes) / seconds : 0;
  screen::print("%s.bin, %s.idx, %s.json: %s, %s of type %s\n", output.c_str(), output.c_str(),
                output.c_str(), counted(result.documents, "document").c_str(),
                counted(result.tokens, "token").c_str(), result.dtype.c_str());
  if (!result.forms.empty()) screen::print("read as %s\n", result.forms.c_str());
  for (const std::string& note : result.notes) screen::print("%s\n", note.c_str());
  if (result.bytes_resumed > 0)
    screen::print("went on from an unfinished call, which had done %s\n",
                  format_bytes(result.bytes_resumed).c_str());
  if (result.empty_documents > 0)
    screen::print("left out %s without a token\n",
                  counted(result.empty_documents, "document").c_str());
  screen::print("%s in %s, %s/s\n", format_bytes(bytes).c_str(), format_duration(seconds).c_str(),
                format_bytes(static_cast<std::int64_t>(rate)).c_str());
}

void data_tokenize(const TokenizeArguments& arguments) {
  const auto begin = std::chrono::steady_clock::now();
  const std::unique_ptr<tokenizer::Tokenizer> tokenizer = tokenizer_for(arguments);
  data::TokenizeOptions options;
  options.inputs = arguments.inputs;
  options.field = arguments.field;
  options.prefix = absolute_path(arguments.output);
  options.jobs = job::resolve_threads(arguments.jobs);
  options.append_eod = arguments.append_eod;
  options.overwrite = arguments.overwrite;
  const data::WorkLock lock(options.prefix + ".partial");
  if (!lock.note().empty()) screen::tell(lock.note());
  std::int64_t bytes = 0;
  data::TokenizeResult result;
  {
    screen::ProgressLine line(
        screen::terminal_of(STDOUT_FILENO, screen::ColorChoice::automatic, arguments.variable));
    result =
        data::tokenize(real_files(), options, *tokenizer, [&](const data::TokenizeProgress& now) {
          bytes = now.bytes_read;
          const auto all = static_cast<double>(now.bytes_in_all);
          line.show(static_cast<double>(now.bytes_read) / all,
                    format("{} of {}, {}, {}", format_bytes(now.bytes_read),
                           format_bytes(now.bytes_in_all), counted(now.documents, "document"),
                           counted(now.tokens, "token")));
        });
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  print_result(result, arguments.output, seconds,
               std::max(bytes - result.bytes_resumed, std::int64_t{0}));
}

}  // namespace

void add_data_tokenize(Commands& commands) {
  commands.add({"data tokenize", After{}, "Make a set of tokens from texts",
                "data tokenize data/bible.txt -o data/bible --tokenizer sentencepiece "
                "--tokenizer-path data/bible.model --append-eod"},
               list_options, data_tokenize);
}

}  // namespace fourfold::cli
