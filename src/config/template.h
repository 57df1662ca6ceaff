// A commented configuration to start from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/model_spec.h"

namespace fourfold::config {

/// The names of the sizes that template_yaml knows of a kind: "124M" and so on, from small to
/// large.
std::vector<std::string> template_sizes(model::Kind kind);
/// "0.8M, 10M (default: 10M); of a unet 1.2M": all of them.
std::string template_sizes_text();

struct TemplateName {
  model::Kind kind;
  std::string size;
};
/// The template of a family and a size by their words; no size: the usual one of the family.
/// Errors: UserError(bad_config) with the families, or the sizes, that there are.
TemplateName template_named(const std::string& model, const std::optional<std::string>& size);

/// A file with every key, its meaning and its value, that trains a model of this size; keys that
/// follow from others stand in comments. Loading it gives no problems. `file`: its name, for the
/// command in its first lines.
/// Errors: UserError(bad_config) with the sizes there are.
std::string template_yaml(std::string_view size, std::string_view file);
/// The tokens that such a model knows; 0: as many as its tokenizer has. Errors: those of
/// template_yaml.
std::int64_t template_vocabulary(std::string_view size);

}  // namespace fourfold::config
