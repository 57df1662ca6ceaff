#include "training_run/settle_prompt.h"

#include <optional>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "generate/prompt.h"
#include "model/model.h"

namespace fourfold::training_run {
namespace {

bool is_set(const config::Config& config) {
  const config::Origin* origin = config.origins.find("sample.prompt");
  return origin != nullptr && origin->place != "default";
}

bool has_ids(const tokenizer::Tokenizer& tokenizer, const std::string& text) {
  try {
    tokenizer.encode(text, "");
    return true;
  } catch (const UserError&) {
    return false;
  }
}

}  // namespace

SettledPrompt settle_prompt(const config::Config& config, const data::Source& source) {
  generate::SampleSpec sample = config.sample_spec();
  SettledPrompt settled{sample.prompt};
  if (sample.tokens == 0) return settled;
  const tokenizer::Tokenizer& tokenizer = *source.tokenizer();
  if (!is_set(config) && !has_ids(tokenizer, sample.prompt)) {
    const std::string usual = json_quoted(sample.prompt);
    sample.prompt = source.beginning();
    settled.notes.push_back(
        format("samples begin with {}: the text has no {}, the default of sample.prompt; set "
               "sample.prompt for another beginning, or sample.tokens: 0 for no sample",
               json_quoted(sample.prompt), usual));
  }
  if (const auto cut = generate::cut_of_prompt(
          sample, tokenizer, model::longest_text(config.model()), "sample.prompt"))
    settled.notes.push_back(*cut);
  settled.text = sample.prompt;
  return settled;
}

}  // namespace fourfold::training_run
