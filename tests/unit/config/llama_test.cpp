// The keys of a Llama: those that it shares with a GPT, its own, and every way to get them wrong.
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "config/config.h"
#include "config/print.h"
#include "config/schema.h"
#include "support/print_words.h"
#include "unit/config/scratch.h"

namespace fourfold::config {
namespace {

using model::RopeKind;

Config llama_with(const std::string& model) {
  return load_yaml("data: {path: x.txt}\nmodel: {kind: llama, " + model + "}", "a.yaml");
}

TEST(LlamaKeys, what_both_families_have_is_kept_where_the_kind_has_it) {
  const Config llama = llama_with("num_layers: 7, hidden_size: 192, num_attention_heads: 6");
  EXPECT_EQ(llama.llama.num_layers, 7);
  const Config gpt = load_yaml("data: {path: x.txt}\nmodel: {num_layers: 7}", "a.yaml");
  EXPECT_EQ(gpt.gpt.num_layers, 7);
  EXPECT_EQ(gpt.llama.num_layers, model::LlamaSpec().num_layers);
}

TEST(LlamaKeys, the_kind_may_stand_after_them_or_in_a_later_file_or_set) {
  const std::string file = "data: {path: x.txt}\nmodel: {num_layers: 7, kind: llama}";
  EXPECT_EQ(load_yaml(file, "a.yaml").llama.num_layers, 7);
  const std::string base = "data: {path: x.txt}\nmodel: {num_layers: 7}", name = "a.yaml";
  for (const std::string set : {"model.kind=llama", "model={kind: llama}"}) {
    const Config config =
        load(std::span(&name, 1), std::span(&set, 1), [&](const std::string&) { return base; });
    EXPECT_EQ(config.kind, model::Kind::llama) << set;
    EXPECT_EQ(config.llama.num_layers, 7) << set;
  }
}

TEST(LlamaKeys, what_is_left_out_follows) {
  const model::LlamaSpec spec =
      llama_with("hidden_size: 576, num_attention_heads: 9, num_key_value_heads: 3").llama;
  EXPECT_EQ(spec.head_dim, 64);
  EXPECT_EQ(spec.ffn_hidden_size, 1536);
  EXPECT_EQ(spec.rope.original_positions, spec.max_position_embeddings);
  EXPECT_EQ(llama_with("num_attention_heads: 8").llama.num_key_value_heads, 8);
}

TEST(LlamaKeys, a_whole_configuration_reads_back) {
  const Config config = llama_with(
      "num_attention_heads: 6, num_key_value_heads: 2, head_dim: 12, attention_bias: qkv, "
      "mlp_bias: true, head_norm: true, tied_head: false, rope: {kind: yarn, theta: 5e5, factor: "
      "4, original_positions: 16, beta_fast: 20, beta_slow: 2, attention_factor: 1.1, truncate: "
      "false}");
  EXPECT_EQ(config.llama.rope.kind, RopeKind::yarn);
  EXPECT_TRUE(stored(resolved_yaml(config)) == config);
  EXPECT_TRUE(load_yaml(shown_yaml(config), "b.yaml") == config);
  EXPECT_EQ(load_yaml("data: {path: x.txt}\n" + model_yaml(config.model()), "c.yaml").llama,
            config.llama);
}

struct LlamaCase {
  std::string text;                   // of the section model, beside its kind
  std::vector<std::string> expected;  // each stands in the report
};

void PrintTo(const LlamaCase& c, std::ostream* out) {
  test::print_words(c.text, *out);
}

class BadLlama : public testing::TestWithParam<LlamaCase> {};

TEST_P(BadLlama, is_the_only_problem_reported_with_place_and_advice) {
  const std::string report =
      problems_of("data: {path: x.txt}\nmodel:\n  kind: llama\n  " + GetParam().text);
  for (const std::string& expected : GetParam().expected)
    EXPECT_NE(report.find(expected), std::string::npos) << "expected: " << expected << "\n"
                                                        << report;
  EXPECT_EQ(count_problems(report), 1U) << report;
}

const std::vector<LlamaCase> llama_numbers = {
    {"num_key_value_heads: 3",
     {"a.yaml:4:24:",
      "model.num_attention_heads = 4 is not divisible by model.num_key_value_heads = 3",
      "choices that work: model.num_key_value_heads = 1, 2, 4"}},
    {"num_key_value_heads: 8", {"model.num_attention_heads = 4 is not divisible by"}},
    {"num_key_value_heads: 0", {"expected whole number from 1 to 1000000; got '0'"}},
    {"num_key_value_heads: many", {"got 'many'"}},
    {"head_dim: 33", {"model.head_dim = 33 is odd", "set model.head_dim = 32 or 34"}},
    {"num_attention_heads: 1000000\n  head_dim: 1000000",
     {"are 1000000000000 elements wide", "set model.head_dim to at most 4"}},
    {"head_dim: 1", {"from 2 to 1000000; got '1'"}},
    {"num_attention_heads: 5", {"model.head_dim = 25 is odd", "model.head_dim is not set"}},
    {"head_dim: 6.5", {"got '6.5'"}},
    {"attention_bias: true", {"expected none, qkv or all; got 'true'"}},
    {"mlp_bias: qkv", {"expected true or false; got 'qkv'"}},
    {"head_norm: 1", {"expected true or false; got '1'"}},
    {"max_position_embeddings: 16",
     {"data.seq_length = 64 is larger than model.max_position_embeddings = 16"}},
    {"bias: true",
     {"model.bias is a setting of gpt, but model.kind = llama", "leave model.bias out"}},
    {"dropout: 0.1", {"model.dropout is a setting of gpt, but model.kind = llama"}},
    {"num_layers: 2\nmemory: {activation_checkpointing: every 3}",
     {"every 3 is more than model.num_layers = 2"}},
    {"hidden_size: 126\n  num_attention_heads: 3\nparallel: {tensor: {y: 4}}",
     {"model.hidden_size = 126 is not divisible by parallel.tensor.y = 4"}},
};

const std::vector<LlamaCase> ropes = {
    {"rope: {kind: dynamic}", {"expected default, linear, llama3 or yarn; got 'dynamic'"}},
    {"rope: {kind: longrope}", {"got 'longrope'"}},
    {"rope: {rope_type: llama3}", {"unknown key 'model.rope.rope_type'", "model.rope.kind"}},
    {"rope_theta: 5e5", {"unknown key 'model.rope_theta'", "model.rope.theta"}},
    {"rope: {base: 5e5}", {"unknown key 'model.rope.base'"}},
    {"rope: llama3", {"'model.rope' is a section; got 'llama3'"}},
    {"rope: {theta: 1}", {"expected number above 1; got '1'"}},
    {"rope: {theta: -10000}", {"expected number above 1; got '-10000'"}},
    {"rope: {factor: 0.5}", {"expected number at least 1; got '0.5'"}},
    {"rope: {factor: 4}",
     {"model.rope.factor is of model.rope.kind = linear or llama3 or yarn, but model.rope.kind = "
      "default"}},
    {"rope: {kind: linear, factor: 2, beta_fast: 20}",
     {"model.rope.beta_fast is of model.rope.kind = yarn"}},
    {"rope: {kind: yarn, factor: 2, high_freq_factor: 5}",
     {"model.rope.high_freq_factor is of model.rope.kind = llama3"}},
    {"rope: {kind: llama3, factor: 8, truncate: false}",
     {"model.rope.truncate is of model.rope.kind = yarn"}},
    {"rope: {kind: llama3, factor: 8, low_freq_factor: 4}",
     {"model.rope.low_freq_factor = 4 is not below model.rope.high_freq_factor = 4"}},
    {"rope: {kind: yarn, factor: 2, beta_slow: 40}",
     {"model.rope.beta_slow = 40 is not below model.rope.beta_fast = 32"}},
    {"rope: {kind: yarn, factor: 2, original_positions: 0}", {"from 1 to 1000000; got '0'"}},
    {"rope: {kind: yarn, factor: 2, attention_factor: -1}", {"at least 0; got '-1'"}},
    {"rope: {kind: yarn, factor: two}", {"got 'two'"}},
};

INSTANTIATE_TEST_SUITE_P(Numbers, BadLlama, testing::ValuesIn(llama_numbers));
INSTANTIATE_TEST_SUITE_P(Ropes, BadLlama, testing::ValuesIn(ropes));

}  // namespace
}  // namespace fourfold::config
