// A U-Net as a person trains it and makes pictures with it: on every kind of grid, gone on from
// checkpoints, with averages of its weights, judged in bits, and what is said where an option or a
// key does not fit.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "checkpoint/stored_model.h"
#include "data/png.h"
#include "support/picture_runs.h"

namespace fourfold {
namespace {

using test::Outcome;
using test::run_here;

class UnetRuns : public PictureRuns {
 protected:
  UnetRuns() : PictureRuns("unet") {}
  void SetUp() override {
    FolderTest::SetUp();
    write_small_unet();
  }
};

TEST_F(UnetRuns, every_kind_of_grid_trains_the_same_weights) {
  if (!is_long_run()) GTEST_SKIP() << "two grids are in the next one; set FOURFOLD_LONG";
  expect_equal_on_grids();
}

TEST_F(UnetRuns, goes_on_from_a_checkpoint_on_its_own_grid_and_on_another) {
  expect_to_go_on_elsewhere();
}

/// The final weights are the averages, which come after the weights that the checkpoint has too.
TEST_F(UnetRuns, its_final_weights_are_averages) {
  ASSERT_EQ(train("a").code, 0);
  ASSERT_EQ(train("plain", {"diffusion.average_decay=0"}).code, 0);
  const Json averaged = last_metrics("a"), alone = last_metrics("plain");
  EXPECT_EQ(averaged.find("loss")->as_double(), alone.find("loss")->as_double())
      << "averages change nothing of the training";
  EXPECT_FALSE(weights("a") == weights("plain"));
  const auto model = checkpoint::open_model_file(path("a/model.safetensors"));
  const auto plain = checkpoint::open_model_file(path("plain/model.safetensors"));
  EXPECT_EQ(model->tensors().size(), plain->tensors().size());
  EXPECT_EQ(model->find("average/out.weight"), nullptr);
}

/// Averages that keep all of themselves are the start, and so is a model that learns nothing.
TEST_F(UnetRuns, is_judged_by_the_averages_that_it_saves) {
  const Outcome kept = train("kept", {"diffusion.average_decay=0.99999999999999"});
  ASSERT_EQ(kept.code, 0) << kept.text;
  ASSERT_EQ(train("start", {"diffusion.average_decay=0", "optimizer.lr=1e-300"}).code, 0);
  ASSERT_EQ(train("plain", {"diffusion.average_decay=0"}).code, 0);
  EXPECT_NEAR(last_loss("kept"), last_loss("start"), 1e-10 * last_loss("start"));
  EXPECT_GT(std::abs(last_loss("plain") - last_loss("start")), 1e-3);
  const Json line = last_metrics("kept");
  ASSERT_NE(line.find("val_weights"), nullptr);
  EXPECT_EQ(line.find("val_weights")->as_string(), "averages");
  const Json plain = last_metrics("plain");
  EXPECT_EQ(plain.find("val_weights"), nullptr);
  EXPECT_NE(kept.output.find(" with averages"), std::string::npos) << kept.output;
  EXPECT_NE(kept.output.find("leaves 100.0% of the untrained weights in the averages, which are "
                             "judged and saved; set it to 0.8254 or less, or train for "),
            std::string::npos)
      << kept.output;
  EXPECT_EQ(train("short", {"diffusion.average_decay=0.8254"}).output.find("untrained"),
            std::string::npos);
}

TEST_F(UnetRuns, its_programs_have_no_faults_on_grids_and_read_back) {
  expect_sound_programs("input       pictures u8 [8, 8, 3]");
}

TEST_F(UnetRuns, makes_pictures_that_follow_from_their_seed_and_number_alone) {
  ASSERT_EQ(train("a", {"precision.compute=fp32"}).code, 0);
  const auto make = [&](const Words& more) {
    Words words = {"generate", path("a")};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run_here(words);
    ASSERT_EQ(outcome.code, 0) << outcome.text;
  };
  make({"-o", path("sheet.png"), "--each", path("each"), "--samples", "20"});
  make({"--each", path("few"), "--samples", "3"});
  make({"--each", path("other"), "--samples", "3", "--seed", "9"});
  make({"--each", path("ddpm"), "--samples", "3", "--sampler", "ddpm", "--steps", "0"});
  make({"--each", path("class"), "--samples", "3", "--class", "2"});
  for (const char* number : {"1", "2", "3"}) {
    const std::string name = std::string("/") + number + ".png";
    EXPECT_TRUE(read_file(path("few") + name) == read_file(path("each") + name));
    for (const char* folder : {"other", "ddpm"})
      EXPECT_FALSE(read_file(path(folder) + name) == read_file(path("each") + name)) << folder;
  }
  // Picture 3 has class 2 anyway.
  EXPECT_TRUE(read_file(path("class/3.png")) == read_file(path("each/3.png")));
  const std::string sheet = read_file(path("sheet.png"));
  const auto shape = data::png_shape(std::as_bytes(std::span(sheet)));
  ASSERT_TRUE(std::holds_alternative<data::PictureShape>(shape));
  EXPECT_EQ(std::get<data::PictureShape>(shape), (data::PictureShape{4 * 9 - 1, 5 * 9 - 1, 3}));
}

TEST_F(UnetRuns, judges_pictures_in_bits) {
  ASSERT_EQ(train("a", {"precision.compute=fp32"}).code, 0);
  const Outcome outcome = run_here({"eval", path("a"), "--data", path("set"), "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_EQ(outcome.text.find("warning"), std::string::npos)
      << "one set is all that there is: " << outcome.text;
  const Json json = parse_json(outcome.output, "eval");
  EXPECT_EQ(json.find("pictures")->as_integer(), 100);
  EXPECT_EQ(json.find("by_time")->items().size(), 12U);
  double sum = 0;
  for (const Json& bits : json.find("by_time")->items()) sum += bits.as_double();
  EXPECT_NEAR(json.find("bits_per_dim")->as_double(), sum, 1e-12 * sum);
  EXPECT_GT(sum, 0);
  const Outcome some = run_here({"eval", path("a"), "--data", path("set"), "--pictures", "16"});
  EXPECT_NE(some.output.find("bits/dim"), std::string::npos) << some.text;
  // Fewer than a batch of training, and than are judged at once.
  for (int picture = 0; picture < 3; ++picture)
    data::write_picture_file(path(format("few/0/{}.png", picture)),
                             data::png_bytes(data::made_png(picture, {8, 8, 3})));
  const Outcome few = run_here({"eval", path("a"), "--data", path("few"), "--json"});
  ASSERT_EQ(few.code, 0) << few.text;
  const Json judged = parse_json(few.output, "eval");
  EXPECT_EQ(judged.find("pictures")->as_integer(), 3);
}

TEST_F(UnetRuns, with_one_time_of_noise_it_trains_is_judged_and_makes_pictures) {
  const Outcome trained =
      train("one", {"train.steps=2", "diffusion.steps=1", "diffusion.sampling_steps=1"});
  ASSERT_EQ(trained.code, 0) << trained.text;
  EXPECT_TRUE(std::isfinite(last_loss("one")));
  for (const char* sampler : {"ddim", "ddpm"}) {
    const Outcome made = run_here({"generate", path("one"), "-o", path(sampler) + ".png",
                                   "--sampler", sampler, "--steps", "1"});
    EXPECT_EQ(made.code, 0) << made.text;
    EXPECT_TRUE(file_exists(path(sampler) + ".png"));
  }
}

TEST_F(UnetRuns, what_does_not_fit_is_said_in_one_line) {
  ASSERT_EQ(train("a", {"train.steps=2"}).code, 0);
  const auto says = [&](const Words& words, int code, const char* expected) {
    const Outcome outcome = run_here(words);
    EXPECT_EQ(outcome.code, code) << expected << "\n" << outcome.text;
    EXPECT_NE(outcome.text.find(expected), std::string::npos) << outcome.text;
  };
  says({"generate", path("a")}, 2, "give -o FILE.png");
  says({"generate", path("a"), "-o", path("a.png"), "--prompt", "x"}, 2,
       "--prompt is an option for texts, but the model of this run makes pictures");
  says({"generate", path("a"), "-o", path("unet.yaml")}, 11, "is there already");
  says({"generate", path("a"), "-o", path("a.png"), "--steps", "13"}, 2,
       "--steps 13: the run has 12 times of noise");
  says({"generate", path("a"), "-o", path("a.png"), "--class", "4"}, 2,
       "--class 4: the model knows 4 classes; expected at most 3");
  says({"eval", path("a"), "--text", path("unet.yaml")}, 2, "give some to judge with --data PATH");
  says({"eval", path("a"), "--data", path("nothing")}, 3, "nothing");
  EXPECT_FALSE(file_exists(path("a.png")));
  const auto refused = [&](const std::string& set, const char* expected) {
    says({"config", "check", path("unet.yaml"), "--set", set}, 2, expected);
  };
  refused("unet.norm_groups=3", "unet.norm_groups = 3 does not divide the 8 channels of a level");
  refused("unet.num_attention_heads=3",
          "unet.num_attention_heads = 3 does not divide the 8 channels of a level");
  refused("unet.channel_mult=[]", "unet.channel_mult has no level");
  refused(
      "unet.picture=[9, 8, 3]",
      "unet.channel_mult has 2 levels, which halve pictures 1 times, but 9 x 8 cannot be divided "
      "by 2");
  refused("diffusion.sampling_steps=13", "is more than diffusion.steps = 12");
  refused("diffusion.noise_schedule=sine", "expected linear or cosine");
  refused("vgg.dropout=0.1", "vgg.dropout is a setting of vgg, but model.kind = unet");
}

}  // namespace
}  // namespace fourfold
