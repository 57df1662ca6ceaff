// The families joined: the key that chooses one, and what is asked of any.
#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"
#include "config/family.h"
#include "config/schema_fields.h"
#include "model/model.h"

namespace fourfold::config {
namespace {

/// Finds a value in the settings of `kind`, or else where another family has it.
template <class T>
Place<T> joined(const Place<T>& of_others, const Place<T>& of_kind, model::Kind kind) {
  return [=](Config& config) -> T& {
    return config.kind == kind ? of_kind(config) : of_others(config);
  };
}

Field joined(const Field& of_others, const Field& of_kind, model::Kind kind) {
  return std::visit(
      [&]<class One>(const One& one) -> Field {
        const One* other = std::get_if<One>(&of_kind);
        require(other != nullptr, "families that share a key give it one type");
        if constexpr (requires { joined(one, *other, kind); })
          return joined(one, *other, kind);
        else
          fail_internal("a key that families share is a plain value");
      },
      of_others);
}

std::vector<FamilySchema> all_families() {
#define FOURFOLD_FAMILY(word, Spec) word##_schema(),
  std::vector<FamilySchema> all = {FOURFOLD_FAMILIES(FOURFOLD_FAMILY)};
#undef FOURFOLD_FAMILY
  for (const model::Kind kind : model::kinds) {
    FamilySchema& family = all[static_cast<std::size_t>(kind)];
    for (Key& key : family.keys) {
      key.kinds = {kind};
      if (!key.on_resume) key.on_resume = ResumeClass::fixed;
    }
    for (Key& key : family.data_keys) key.kinds = {kind};
  }
  return all;
}

/// Makes `key` a setting of the family of `other` too, whose row says only where it is kept and
/// what it follows from.
void share(Key& key, const Key& other) {
  const model::Kind kind = other.kinds.front();
  require(key.derive.operator bool() == other.derive.operator bool(),
          "a key that families share follows from others in all of them or in none");
  key.field = joined(key.field, other.field, kind);
  key.kinds.push_back(kind);
  if (!key.derive) return;
  if (other.derived_words != key.derived_words)
    key.derived_words += format(" ({}: {})", model::family(kind).name, other.derived_words);
  key.derive = [kind, of_others = key.derive, of_kind = other.derive](Config& config) {
    (config.kind == kind ? of_kind : of_others)(config);
  };
}

template <class Answers>
std::vector<model::Kind> kinds_where(Answers is_one) {
  std::vector<model::Kind> kinds;
  std::ranges::copy_if(model::kinds, std::back_inserter(kinds),
                       [&](model::Kind kind) { return is_one(model::family(kind)); });
  return kinds;
}

}  // namespace

model::Spec Config::model() const {
  switch (kind) {
#define FOURFOLD_FAMILY(word, Spec) \
  case model::Kind::word:           \
    return model::with_wide_residual(word, has_wide_residual());
    FOURFOLD_FAMILIES(FOURFOLD_FAMILY)
#undef FOURFOLD_FAMILY
  }
  fail_internal("every family has its settings");
}

void Config::set_model(const model::Spec& given) {
  const model::Spec own = model::with_wide_residual(given, false);  // model() says how it is kept
#define FOURFOLD_FAMILY(word, Spec) \
  if (const auto* of = std::get_if<model::Spec>(&own)) word = *of, kind = model::Kind::word;
  FOURFOLD_FAMILIES(FOURFOLD_FAMILY)
#undef FOURFOLD_FAMILY
}

std::vector<Key> model_keys() {
  std::vector<std::string> words, meanings;
  for (const model::Family& family : model::families) {
    words.emplace_back(family.name);
    meanings.push_back(format("{} {}", family.name, family.does));
  }
  return {{.path = "model.kind",
           .meaning = format("The family of the model: {}.", join(meanings, "; ")),
           .field = choice<model::Kind>(at(&Config::kind), words,
                                        {model::kinds.begin(), model::kinds.end()}),
           .fallback = words[0],
           .example = words[1],
           .elsewhere = {"model_type", "architecture", "arch"},
           .on_resume = ResumeClass::fixed}};
}

const FamilySchema& family_schema(model::Kind kind) {
  static const std::vector<FamilySchema> table = all_families();
  return table[static_cast<std::size_t>(kind)];
}

std::optional<model::Kind> kind_named(std::string_view word) {
  for (const model::Kind kind : model::kinds)
    if (model::family(kind).name == word) return kind;
  return std::nullopt;
}

std::vector<Key> family_keys() {
  std::vector<Key> all;
  for (const model::Kind kind : model::kinds)
    for (const Key& key : family_schema(kind).keys) {
      const auto known =
          std::ranges::find_if(all, [&](const Key& other) { return other.path == key.path; });
      if (known == all.end())
        all.push_back(key);
      else
        share(*known, key);
    }
  return all;
}

std::vector<model::Kind> kinds_that_read(model::Reads reads) {
  return kinds_where([reads](const model::Family& family) { return family.reads == reads; });
}

std::vector<model::Kind> kinds_that_make(model::Makes makes) {
  return kinds_where([makes](const model::Family& family) { return family.makes == makes; });
}

std::vector<model::Kind> kinds_with_residual_stream() {
  return kinds_where([](const model::Family& family) { return family.has_residual_stream; });
}

std::string kind_word(model::Kind kind) {
  return std::string(model::family(kind).name);
}

std::string kind_words(const std::vector<model::Kind>& kinds) {
  std::vector<std::string> words;
  for (const model::Kind kind : kinds) words.push_back(kind_word(kind));
  return join(words, " or ");
}

std::optional<std::string> picture_fault(const Config& config) {
  const FamilySchema& family = family_schema(config.kind);
  for (const Rule& rule : family.rules) {
    if (std::ranges::find(rule.keys, family.picture_key) == rule.keys.end()) continue;
    if (const auto finding = rule.check(config)) return finding->message + "; " + finding->hint;
  }
  return std::nullopt;
}

std::string heads_that_work(const Config& config, std::int64_t width, std::int64_t widest) {
  const FamilySchema& family = family_schema(config.kind);
  Config tried = config;
  auto& heads = std::get<Place<std::int64_t>>(find_key(family.heads_key)->field)(tried);
  const std::int64_t columns = heads * width;
  constexpr std::size_t most_words = 6;
  std::vector<std::string> words;
  for (heads = (columns + widest - 1) / widest; heads <= columns && words.size() < most_words;
       ++heads)
    if (columns % heads == 0 && std::ranges::none_of(family.rules, [&](const Rule& rule) {
          return std::ranges::find(rule.keys, family.heads_key) != rule.keys.end() &&
                 rule.check(tried);
        }))
      words.push_back(format("{}", heads));
  return (words.size() == 1 ? "choose " : "choose one of ") + join(words, ", ");
}

}  // namespace fourfold::config
