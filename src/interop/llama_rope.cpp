// The keys of rotary positions in a config.json.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/format.h"
#include "interop/llama.h"

namespace fourfold::interop {
namespace {

using model::RopeKind;
using model::RopeSpec;

struct KindRow {
  std::string_view name;
  RopeKind kind;
  std::vector<std::string_view> keys;  // beside rope_type and rope_theta
};

const std::array<KindRow, 4>& kind_rows() {
  static const std::array<KindRow, 4> rows = {
      KindRow{"default", RopeKind::plain, {}},
      {"linear", RopeKind::linear, {"factor"}},
      {"llama3",
       RopeKind::llama3,
       {"factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor"}},
      {"yarn",
       RopeKind::yarn,
       {"factor", "original_max_position_embeddings", "beta_fast", "beta_slow", "attention_factor",
        "mscale", "mscale_all_dim", "truncate"}}};
  return rows;
}

constexpr double most = std::numeric_limits<double>::infinity();

const KindRow* find_kind(ConfigReader& rope) {
  const Json* word = rope.find("rope_type", "type");
  if (word == nullptr) return &kind_rows()[0];
  for (const KindRow& row : kind_rows())
    if (*word == Json(row.name)) return &row;
  rope.refuse("rope_type", *word,
              "expected \"default\", \"linear\", \"llama3\" or \"yarn\", the kinds of rotary "
              "positions that are computed here");
  return nullptr;
}

void refuse_other_keys(ConfigReader& rope, const KindRow& row) {
  for (const Json::Member& member : rope.json().members()) {
    const auto is_one_of = [&](const auto& names) {
      return std::ranges::find(names, member.key) != names.end();
    };
    constexpr std::array<std::string_view, 4> common = {"rope_type", "type", "rope_theta",
                                                        "partial_rotary_factor"};
    if (is_one_of(common) || is_one_of(row.keys) || member.value.kind() == Json::Kind::null)
      continue;
    rope.refuse(member.key, member.value,
                format("rotary positions of kind \"{}\" have no such key; leave it out", row.name));
  }
}

/// As transformers has it: from two scales, where there are two and no factor.
double yarn_factor(ConfigReader& rope, double factor) {
  const double given = rope.number("attention_factor", 0, false, most);
  if (given > 0) return given;
  const double scale = rope.number("mscale", 0, true, most),
               of_all = rope.number("mscale_all_dim", 0, true, most);
  if (scale == 0 || of_all == 0 || factor <= 1) return 0;
  const auto grown = [&](double by) { return 0.1 * by * std::log(factor) + 1; };
  return grown(scale) / grown(of_all);
}

void read_kind(ConfigReader& rope, RopeSpec& spec, std::int64_t original) {
  if (spec.kind == RopeKind::plain) return;
  if (rope.find("factor") == nullptr && spec.kind != RopeKind::yarn)
    rope.refuse("factor", Json(), "expected a number, at least 1");
  if (spec.kind != RopeKind::linear)
    spec.original_positions =
        rope.integer("original_max_position_embeddings", "", original, most_tokens);
  spec.factor = rope.number("factor", 1, false, most);
  if (spec.factor < 1) rope.refuse("factor", *rope.find("factor"), "expected at least 1");
  if (spec.kind == RopeKind::llama3) {
    for (const char* key : {"low_freq_factor", "high_freq_factor"})
      if (rope.find(key) == nullptr) rope.refuse(key, Json(), "expected a number above 0");
    spec.low_freq_factor = rope.number("low_freq_factor", 1, false, most);
    spec.high_freq_factor = rope.number("high_freq_factor", 4, false, most);
    if (spec.low_freq_factor >= spec.high_freq_factor)
      rope.refuse("low_freq_factor", Json(spec.low_freq_factor),
                  format("expected less than high_freq_factor = {}", spec.high_freq_factor));
  }
}

void read_yarn(ConfigReader& rope, RopeSpec& spec, std::int64_t max_positions) {
  if (spec.kind != RopeKind::yarn) return;
  if (rope.find("factor") == nullptr)
    spec.factor = std::max(
        1.0, static_cast<double>(max_positions) / static_cast<double>(spec.original_positions));
  spec.beta_fast = rope.number("beta_fast", 32, false, most);
  spec.beta_slow = rope.number("beta_slow", 1, false, most);
  if (spec.beta_slow >= spec.beta_fast)
    rope.refuse("beta_slow", Json(spec.beta_slow),
                format("expected less than beta_fast = {}", spec.beta_fast));
  spec.truncate = rope.boolean("truncate", true);
  spec.attention_factor = yarn_factor(rope, spec.factor);
}

}  // namespace

RopeSpec read_rope(ConfigReader& reader, std::int64_t max_positions) {
  // As in transformers 5: the older key counts where both are there.
  const char* section = reader.find("rope_scaling") != nullptr ? "rope_scaling" : "rope_parameters";
  const Json* found = reader.find(section);
  const Json none = Json::object();
  if (found != nullptr && found->kind() != Json::Kind::object) {
    reader.refuse(section, *found, "expected an object, as {\"rope_type\": \"default\"}");
    found = nullptr;
  }
  RopeSpec spec;
  ConfigReader rope(found == nullptr ? none : *found, "");
  rope.set_section(std::string(section) + ".");
  ConfigReader& of_theta = rope.find("rope_theta") != nullptr ? rope : reader;
  spec.theta = of_theta.number("rope_theta", 10000, false, most);
  if (spec.theta <= 1) of_theta.refuse("rope_theta", Json(spec.theta), "expected a number above 1");
  spec.original_positions = max_positions;
  if (const KindRow* row = find_kind(rope)) {
    spec.kind = row->kind;
    refuse_other_keys(rope, *row);
    read_kind(rope, spec,
              reader.integer("original_max_position_embeddings", "", max_positions, most_tokens));
    read_yarn(rope, spec, max_positions);
  }
  for (ConfigReader* of : {&reader, &rope})
    if (const Json* share = of->find("partial_rotary_factor");
        share != nullptr && !(*share == Json(1)) && !(*share == Json(1.0)))
      of->refuse("partial_rotary_factor", *share,
                 "expected 1; heads of these models are turned as a whole");
  reader.take_problems(rope);
  return spec;
}

void write_rope(Json& json, const RopeSpec& rope) {
  const KindRow& row = *std::ranges::find(kind_rows(), rope.kind, &KindRow::kind);
  Json parameters = Json::object();
  parameters.set("rope_type", row.name).set("rope_theta", rope.theta);
  const auto set = [&](std::string_view key, Json value) {
    if (std::ranges::find(row.keys, key) != row.keys.end())
      parameters.set(std::string(key), std::move(value));
  };
  set("factor", rope.factor);
  set("original_max_position_embeddings", rope.original_positions);
  set("low_freq_factor", rope.low_freq_factor);
  set("high_freq_factor", rope.high_freq_factor);
  set("beta_fast", rope.beta_fast);
  set("beta_slow", rope.beta_slow);
  if (rope.attention_factor > 0) set("attention_factor", rope.attention_factor);
  if (!rope.truncate) set("truncate", false);
  json.set("rope_theta", rope.theta)
      .set("rope_scaling", rope.kind == RopeKind::plain ? Json() : parameters);
  json.set("rope_parameters", std::move(parameters));
}

}  // namespace fourfold::interop
