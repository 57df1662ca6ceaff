#include "config/family.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "config/resume_class.h"
#include "model/model.h"
#include "unit/config/scratch.h"

namespace fourfold::config {
namespace {

Config of_kind(model::Kind kind) {
  Config config;
  config.kind = kind;
  return config;
}

bool is_key_of(const std::string& path, model::Kind kind) {
  const Key* key = find_key(path);
  return key != nullptr && std::ranges::count(key->kinds, kind) == 1;
}

TEST(Families, each_has_a_word_of_its_own_that_finds_it) {
  std::set<std::string_view> words;
  for (const model::Kind kind : model::kinds) {
    const model::Family& family = model::family(kind);
    EXPECT_TRUE(words.insert(family.name).second) << family.name;
    EXPECT_EQ(kind_named(family.name), kind);
    EXPECT_EQ(&model::family(of_kind(kind).model()), &family);
    EXPECT_FALSE(family.title.empty() || family.does.empty()) << family.name;
  }
  EXPECT_EQ(kind_named("transformer"), std::nullopt);
}

TEST(Families, what_others_ask_for_is_a_key_of_its_own) {
  for (const model::Kind kind : model::kinds) {
    const FamilySchema& schema = family_schema(kind);
    const bool is_text = model::family(kind).reads == model::Reads::text;
    EXPECT_TRUE(is_key_of(schema.labels_key, kind)) << schema.labels_key;
    EXPECT_TRUE(is_key_of(is_text ? schema.length_key : schema.picture_key, kind));
    EXPECT_TRUE((is_text ? schema.picture_key : schema.length_key).empty());
    EXPECT_TRUE(is_key_of(schema.size_key("blocks.0.mlp.up.weight", true), kind));
    EXPECT_EQ(schema.sizes.empty(), schema.usual_size.empty());
    for (const Key& key : schema.keys)
      EXPECT_TRUE(is_key_of(key.path, kind) && find_key(key.path)->on_resume) << key.path;
  }
}

TEST(Families, a_model_takes_what_the_data_say) {
  for (const model::Kind kind : model::kinds) {
    Config config = of_kind(kind);
    ASSERT_TRUE(model::needs_data(config.model()));
    model::DataFacts facts;
    facts.num_labels = 7;
    const bool is_text = config.family().reads == model::Reads::text;
    if (!is_text) facts.picture = {16, 16, 3};
    config.set_model(model::settled(config.model(), facts));
    EXPECT_EQ(config.kind, kind);
    EXPECT_EQ(model::data_facts(config.model()), facts);
    EXPECT_FALSE(model::needs_data(config.model()));
    EXPECT_EQ(model::longest_text(config.model()) > 0, is_text);
    if (is_text) continue;
    facts.picture.clear();
    EXPECT_TRUE(model::needs_data(model::settled(config.model(), facts)));
  }
}

TEST(Families, only_those_that_have_a_fact_answer_for_it) {
  for (const model::Kind kind : model::kinds) {
    const model::Family& family = model::family(kind);
    model::Spec spec = of_kind(kind).model();
    EXPECT_EQ(model::stream_width(spec) > 0, family.has_residual_stream) << family.name;
    EXPECT_EQ(model::with_wide_residual(spec, true) != spec, family.has_residual_stream);
    EXPECT_EQ(model::diffusion(spec) != nullptr, family.makes == model::Makes::pictures);
    if (family.has_equal_layers) {
      EXPECT_EQ(model::num_layers(model::with_layers(spec, 23)), 23);
    } else {
      EXPECT_EQ(model::with_layers(spec, 23), spec);
    }
  }
}

TEST(Families, a_model_that_is_given_back_changes_its_own_settings_alone) {
  for (const model::Kind kind : model::kinds) {
    Config config;
    config.set_model(of_kind(kind).model());
    EXPECT_TRUE(config == of_kind(kind));
  }
}

TEST(Families, a_setting_of_a_model_is_fixed_when_a_run_goes_on_unless_its_row_says_otherwise) {
  EXPECT_EQ(resume_class("model.hidden_size"), ResumeClass::fixed);
  EXPECT_EQ(resume_class("model.kind"), ResumeClass::fixed);
  EXPECT_EQ(resume_class("vgg.dropout"), ResumeClass::overridable);
  EXPECT_EQ(resume_class("diffusion.eta"), ResumeClass::free);
  EXPECT_EQ(resume_class("data.mean"), ResumeClass::overridable);
}

TEST(Families, heads_that_are_narrow_enough_are_proposed_by_the_rules_of_the_family) {
  Config gpt = of_kind(model::Kind::gpt);
  gpt.gpt.hidden_size = 1536;
  gpt.gpt.num_attention_heads = 2;
  EXPECT_EQ(heads_that_work(gpt, 768, 512), "choose one of 3, 4, 6, 8, 12, 16");
  // Heads divide the channels of every level, of which the widest one needs two heads at least.
  Config unet = of_kind(model::Kind::unet);
  unet.unet.channels = 520;
  unet.unet.channel_mult = {1, 2};
  unet.unet.num_heads = 1;
  EXPECT_EQ(heads_that_work(unet, 1040, 512), "choose one of 4, 5, 8, 10, 13, 20");
  unet.unet.channels = 7;
  unet.unet.channel_mult = {1, 7};
  EXPECT_EQ(heads_that_work(unet, 49, 8), "choose 7");
  EXPECT_EQ(family_schema(model::Kind::vgg).heads_key, "");
}

}  // namespace
}  // namespace fourfold::config
