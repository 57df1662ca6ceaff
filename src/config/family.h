// What the schema says of each family of models: its keys, the relations between them, the keys
// that others ask for, sizes to start from. Each stands in a file of its own, schema_<word>.cpp.
// Not what a family is (model/family.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/rules.h"
#include "config/schema.h"

namespace fourfold::config {

/// A size of a model that `config new` knows, with the settings that train it.
struct TemplateSize {
  std::string_view name, source;  // "124M"; where the numbers are from
  std::vector<std::pair<const char*, std::string>> settings;
  std::int64_t vocabulary = 0;  // tokens that it is made for; 0: as many as its tokenizer has
};

struct FamilySchema {
  /// In the order in which they are shown. When a run goes on they are fixed, unless the row says
  /// otherwise. The row of a key that a family before it has too says where it is kept and what it
  /// follows from; the rest is as there.
  std::vector<Key> keys;
  /// Those of its keys that stand in the section `data`, beside what feeds all models.
  std::vector<Key> data_keys = {};
  std::vector<Rule> rules;
  std::string labels_key;        // how many labels there are: tokens or classes
  std::string length_key = {};   // its longest text; of a family that is fed text
  std::string picture_key = {};  // the size of a picture; of a family that is fed pictures
  std::string heads_key = {};    // how many heads attention has; of a family that has attention
  /// The key that says how many rows or columns a tensor has, by the name that the model gives it.
  std::string (*size_key)(const std::string& tensor, bool is_rows);
  std::vector<TemplateSize> sizes = {};  // from small to large; none: there are no templates
  std::string_view usual_size = {};
  std::string_view example_file = {};  // a configuration to begin with where there are no templates
};

#define FOURFOLD_FAMILY(word, Spec) FamilySchema word##_schema();
FOURFOLD_FAMILIES(FOURFOLD_FAMILY)
#undef FOURFOLD_FAMILY

const FamilySchema& family_schema(model::Kind kind);
/// The keys of all families, one that several have once.
std::vector<Key> family_keys();
/// By its word, "gpt"; none if there is no such family.
std::optional<model::Kind> kind_named(std::string_view word);

std::vector<model::Kind> kinds_that_read(model::Reads reads);
std::vector<model::Kind> kinds_that_make(model::Makes makes);
std::vector<model::Kind> kinds_with_residual_stream();
/// "vgg or unet".
std::string kind_words(const std::vector<model::Kind>& kinds);

/// A picture has three numbers, within bounds.
Rule rule_of_picture(const std::string& picture_key);

/// What is wrong with the pictures of a model, once their size is known, by the rules of its family
/// that read them: with what to do.
std::optional<std::string> picture_fault(const Config& config);

/// Names the numbers of heads that the family's rules admit and whose heads have at most `widest`
/// elements, for a configuration whose heads have `width`: "choose one of 8, 12, 16".
std::string heads_that_work(const Config& config, std::int64_t width, std::int64_t widest);

}  // namespace fourfold::config
