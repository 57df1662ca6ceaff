// Text that is cut off, edited or wrong: refused with a UserError that says where and why.
#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "base/format.h"
#include "program/examples.h"
#include "program/jobs.h"
#include "program/text.h"
#include "verify/verify_job.h"

namespace fourfold::program {
namespace {

std::string error_of(const std::string& text) {
  try {
    parse_program(text, "some.txt");
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_config);
    EXPECT_EQ(std::string_view(error.what()).find('\n'), std::string_view::npos);
    return error.what();
  }
  return "no error";
}

/// The text of the train program with the first occurrence of `from` replaced.
std::string edited(const std::string& from, const std::string& to) {
  std::string text = to_text(tiny_train(2));
  const std::size_t place = text.find(from);
  EXPECT_NE(place, std::string::npos) << from;
  return text.replace(place, from.size(), to);
}

TEST(TextErrors, name_the_file_the_line_what_was_read_and_what_was_expected) {
  EXPECT_EQ(error_of(""), "some.txt:0: the text ends, expected 'program'");
  EXPECT_EQ(error_of("# nothing\n\nprogramme x\n"),
            "some.txt:3: read 'programme', expected 'program'");
  const std::string kinds =
      "expected one of the programs init, train, evaluate, bound, prefill, decode, denoise, digest";
  EXPECT_EQ(error_of(edited("program train", "program trian")),
            "some.txt:1: read 'trian', " + kinds);
  EXPECT_EQ(error_of(edited("program train", "program")), "some.txt:1: the line ends, " + kinds);
  EXPECT_EQ(error_of(edited("rank        0 of 1", "rank zero of 1")),
            "some.txt:2: read 'zero', expected a rank");
  EXPECT_EQ(error_of(edited("[data 1]", "[data 0]")),
            "some.txt:5: read '0', expected an axis size of at least 1");
  EXPECT_EQ(error_of(edited("  embedding ", "  step ")),
            "some.txt:15: read 'step', expected buffers of different names");
  EXPECT_EQ(error_of(edited("f32  [16, 8]", "f99  [16, 8]")),
            "some.txt:15: read 'f99', expected a dtype");
  EXPECT_EQ(error_of(edited("  events ", "  reduce bf17\n  events ")),
            "some.txt:11: read 'bf17', expected an element type such as bf16");
}

TEST(TextErrors, say_what_is_wrong_with_an_input) {
  EXPECT_EQ(error_of(edited("labels i32 [4]", "tokens i32 [4]")),
            "some.txt:9: read 'tokens', expected inputs of different names");
  EXPECT_EQ(error_of(edited("labels i32 [4]", "labels i33 [4]")),
            "some.txt:9: read 'i33', expected an element type such as i32");
  EXPECT_EQ(error_of(edited("labels i32 [4]", "labels i32 [4, x]")),
            "some.txt:9: read '[4, x]', expected the shape of a sample, such as [64]");
  EXPECT_NE(error_of(edited("input labels micro", "input label micro"))
                .find("read 'label', expected the name of an input"),
            std::string::npos);
}

TEST(TextErrors, point_at_the_word_of_an_instruction) {
  EXPECT_NE(error_of(edited("u -> a ", "u -> nowhere "))
                .find("read 'nowhere', expected the name of a buffer"),
            std::string::npos);
  EXPECT_NE(
      error_of(edited("u -> a ", "u, u -> a ")).find("read '2 operands before ->', expected 1"),
      std::string::npos);
  EXPECT_NE(error_of(edited("math  gelu", "myth  gelu"))
                .find("read 'myth', expected 'task', 'end' or the name of a stream"),
            std::string::npos);
  EXPECT_NE(error_of(edited("&result.loss_sum", "result.loss_sum"))
                .find("expected '&' before an updated operand"),
            std::string::npos);
  EXPECT_NE(error_of(edited("event 0", "event 9")).find("read '9', expected an event below 4"),
            std::string::npos);
  EXPECT_NE(
      error_of(edited("task update", "task update = forward(7)")).find("expected an earlier task"),
      std::string::npos);
}

TEST(TextErrors, text_cut_off_after_any_line_is_refused) {
  for (const std::string& text : {to_text(tiny_train(3)), to_text(every_kind())})
    for (std::size_t end = text.find('\n'); end + 1 < text.size(); end = text.find('\n', end + 1)) {
      const std::string cut = text.substr(0, end + 1);
      EXPECT_THROW(parse_program(cut, "cut.txt"), UserError) << cut;
    }
  const std::string bundle = to_text(tiny_bundle());
  for (std::size_t end = bundle.find('\n'); end + 1 < bundle.size();
       end = bundle.find('\n', end + 1))
    EXPECT_THROW(parse_bundle(bundle.substr(0, end + 1), "cut.txt"), UserError);
}

TEST(TextErrors, text_behind_the_end_is_refused) {
  EXPECT_THROW(parse_program(to_text(tiny_init()) + "more\n", "t"), UserError);
  EXPECT_THROW(parse_bundle(to_text(tiny_bundle()) + to_text(tiny_init()), "t"), UserError);
}

/// Reads the text; true when it was a program. Anything but a UserError escapes.
bool reads(const std::string& text) {
  try {
    verify::verify(parse_program(text, "edited.txt"));
    return true;
  } catch (const UserError&) {
    return false;
  }
}

TEST(TextErrors, random_edits_are_read_or_refused_and_never_anything_else) {
  std::mt19937 random(7);
  const std::string printable = " \n#[](),:->&@x0123456789.abcdefghijklmnopqrstuvwxyz_";
  int accepted = 0;
  for (const std::string& original :
       {to_text(tiny_train(3)), to_text(every_kind()), to_text(sharded_train())})
    for (int round = 0; round < 2000; ++round) {
      std::string text = original;
      for (std::size_t edit = 0; edit < 1 + random() % 3; ++edit) {
        const std::size_t place = random() % text.size();
        const char letter = random() % 4 == 0 ? static_cast<char>(random() % 256)
                                              : printable[random() % printable.size()];
        if (random() % 3 == 0)
          text.erase(place, 1 + random() % 4);
        else if (random() % 2 == 0)
          text.insert(place, 1, letter);
        else
          text[place] = letter;
      }
      ASSERT_NO_THROW(accepted += reads(text) ? 1 : 0) << text;
    }
  EXPECT_GT(accepted, 0);
}

/// The same for a job.
bool job_reads(const std::string& text) {
  try {
    verify::verify(parse_job(text, "edited.txt"));
    return true;
  } catch (const UserError&) {
    return false;
  }
}

/// Two classes that exchange messages, of several ranks each.
Job two_classes() {
  const std::vector<Bundle> bundles = pipeline_job(3);
  Job job{{bundles[0], bundles[3]}, {}};
  for (std::size_t rank = 0; rank < 6; ++rank) {
    Binding binding{rank < 3 ? 0U : 1U, {}};
    for (const Channel& channel : channels_of(bundles[rank])) binding.peers.push_back(channel.peer);
    job.ranks.push_back(binding);
  }
  return job;
}

TEST(TextErrors, random_edits_of_a_job_are_read_or_refused_and_never_anything_else) {
  std::mt19937 random(7);
  const std::string original = to_text(two_classes());
  const std::size_t head = original.find("bundle");
  const std::string letters = " \n.0123456789abcdefgijklmnoprsty";
  ASSERT_TRUE(job_reads(original));
  int accepted = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = original;
    const std::size_t within = round % 2 == 0 ? head : text.size();
    const std::size_t place = random() % within;
    if (random() % 3 == 0)
      text.erase(place, 1 + random() % 4);
    else
      text[place] = letters[random() % letters.size()];
    ASSERT_NO_THROW(accepted += job_reads(text) ? 1 : 0) << text;
  }
  EXPECT_GT(accepted, 0);
}

TEST(TextErrors, a_job_names_the_word_at_fault) {
  const std::string text = to_text(two_classes());
  const auto error_with = [&](const std::string& from, const std::string& to) {
    std::string edited = text;
    edited.replace(edited.find(from), from.size(), to);
    try {
      parse_job(edited, "job.txt");
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  EXPECT_EQ(error_with("ranks 3..5", "ranks 4..5"), "job.txt:4: read '4..5', expected rank 3 next");
  EXPECT_EQ(error_with("class 1", "class 2"),
            "job.txt:4: read '2', expected the number of a class below 2");
  EXPECT_EQ(error_with("job of 6", "job of 5"),
            "job.txt:4: read 'ranks up to 5', expected 5 ranks");
  EXPECT_EQ(error_with("ranks 3..5", "ranks 3..9999999"),
            "job.txt:4: read '3..9999999', expected no more than 2^20 ranks");
  EXPECT_NE(error_with("\nclass 1\n", "\nclass 0\n").find("read '0', expected class 1"),
            std::string::npos);
}

TEST(TextErrors, a_job_of_another_version_is_refused_at_its_first_line) {
  const std::string text = to_text(two_classes());
  const std::string own = "job text version 1\n";
  ASSERT_TRUE(text.starts_with(own)) << text.substr(0, 100);
  const auto error_with = [&](const std::string& first) {
    try {
      parse_job(first + text.substr(own.size()), "job.txt");
    } catch (const UserError& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_config);
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  const std::string expected =
      ", expected 'job text version 1': print the job again, with `fourfold program CONFIG --job` "
      "of this build";
  EXPECT_EQ(error_with("job text version 2\n"), "job.txt:1: read '2'" + expected);
  EXPECT_EQ(error_with("job text version 01\n"), "job.txt:1: read '01'" + expected);
  EXPECT_EQ(error_with(""), "job.txt:1: read 'of'" + expected) << "written before versions";
  EXPECT_EQ(error_with("job text\n"), "job.txt:1: the line ends, expected 'version'");
  EXPECT_EQ(error_with("job text version 1 draft\n").find("job.txt:1: read 'draft'"), 0U);
}

TEST(TextErrors, numbers_that_do_not_fit_are_refused) {
  EXPECT_FALSE(reads(edited("event 0", "event 99999999999999999999")));
  EXPECT_FALSE(reads(edited("ranks 0", "ranks 0..99999999999")));
  EXPECT_FALSE(reads(edited("rank        0 of", "rank        4294967296 of")));
}

}  // namespace
}  // namespace fourfold::program
