#include "job/imported_config.h"

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "config/print.h"
#include "model/model.h"

namespace fourfold::job {
namespace {

/// Some models look at texts that are far longer than samples usually are.
constexpr std::int64_t most_tokens_of_sample = 2048;

/// In the place of a text that only the user knows.
constexpr const char* no_text_yet = "TEXT-TO-TRAIN-ON.txt";

std::string data_yaml(const tokenizer::FoundTokenizer& found, const std::string& run_dir,
                      std::int64_t length) {
  std::string text = format("data:\n  seq_length: {}\n", length);
  if (found.key.empty()) return text + "  format: synthetic\n";
  text += format("  format: text\n  path: {}\n  tokenizer: {}\n", no_text_yet, found.key);
  if (!found.files.empty()) {
    const bool is_one = found.files.size() == 1;
    text += format("  tokenizer_path: {}\n",
                   json_quoted(is_one ? join_path(run_dir, found.files[0].name) : run_dir));
  }
  return text;
}

}  // namespace

std::string imported_yaml(const model::Spec& spec, const tokenizer::FoundTokenizer& found,
                          const std::string& run_dir) {
  const std::string name = std::filesystem::path(absolute_path(run_dir)).filename().string();
  return format("run:\n  name: {}\n  dir: {}\n", json_quoted(name), json_quoted(run_dir)) +
         config::model_yaml(spec) +
         data_yaml(found, run_dir, std::min(model::longest_text(spec), most_tokens_of_sample));
}

}  // namespace fourfold::job
