// Options of `data`.
#include "base/format.h"
#include "command_line/options.h"
#include "data/bad_pictures.h"

namespace fourfold::command_line {
namespace {

void add_tokenize(CLI::App& data, Commands& commands) {
  auto* sub = data.add_subcommand("tokenize", "Make a set of tokens from texts");
  TokenizeArguments& arguments = commands.tokenize;
  sub->add_option("INPUT", arguments.inputs,
                  "Texts, folders of texts, JSON lines; also packed by gzip or zstd")
      ->required();
  sub->add_option("-o,--output", arguments.output,
                  "PREFIX: the set becomes PREFIX.bin, PREFIX.idx and PREFIX.json")
      ->required();
  sub->add_option("--tokenizer", arguments.tokenizer, "char, byte, sentencepiece, gpt2 or hub")
      ->required()
      ->check(one_of({"char", "byte", "sentencepiece", "gpt2", "hub"}));
  sub->add_option("--tokenizer-path", arguments.tokenizer_path,
                  "sentencepiece: its .model; gpt2: the folder of vocab.json and merges.txt; hub: "
                  "the folder of tokenizer.json");
  sub->add_option("--field", arguments.field, "The member of JSON lines that holds the text")
      ->capture_default_str();
  sub->add_option("--jobs", arguments.jobs, "Threads; 0: one a core")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  sub->add_flag("--append-eod", arguments.append_eod,
                "End each document with the tokenizer's end-of-document token");
  sub->add_flag("--overwrite", arguments.overwrite, "Replace a set that is there");
  sub->callback(
      [&] { commands.chosen = [&] { commands.actions.data_tokenize(commands.tokenize); }; });
}

void add_train_tokenizer(CLI::App& data, Commands& commands) {
  auto* sub = data.add_subcommand("train-tokenizer", "Learn a sentencepiece tokenizer from texts");
  TrainTokenizerArguments& arguments = commands.train_tokenizer;
  sub->add_option("INPUT", arguments.inputs,
                  "Texts, folders of texts, JSON lines; also packed by gzip or zstd")
      ->required();
  sub->add_option("-o,--output", arguments.output, "The .model file to write")->required();
  sub->add_option("--vocab-size", arguments.vocab_size,
                  "Tokens; the result may have fewer, where the text has no more")
      ->required()
      ->check(CLI::Range(std::int64_t{260}, std::int64_t{1000000}));
  sub->add_option("--coverage", arguments.coverage,
                  "Share of the characters that get a token of their own; others become bytes")
      ->check(CLI::Range(0.5, 1.))
      ->capture_default_str();
  sub->add_option("--sample", arguments.sample_mib,
                  "Learn from at most so many MiB of the text, lines chosen evenly")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20))
      ->capture_default_str();
  sub->add_option("--field", arguments.field, "The member of JSON lines that holds the text")
      ->capture_default_str();
  sub->add_option(
         "--threads", arguments.threads,
         "Threads that prepare the lines; 0: one a core. The file says how many there were")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  sub->add_flag("--overwrite", arguments.overwrite, "Replace a file that is there");
  sub->callback([&] {
    commands.chosen = [&] { commands.actions.data_train_tokenizer(commands.train_tokenizer); };
  });
}

CLI::Validator bad_images_check() {
  const auto fault = [](const std::string& text) {
    return data::bad_pictures_of(text)
               ? std::string()
               : format("'{}' is neither stop nor skip:N, such as skip:10", text);
  };
  return {fault, ""};
}

}  // namespace

void add_data(CLI::App& app, Commands& commands) {
  auto* sub = app.add_subcommand("data", "Prepare texts for training, and look at data");
  sub->require_subcommand(1);
  add_tokenize(*sub, commands);
  add_train_tokenizer(*sub, commands);
  auto* inspect = sub->add_subcommand("inspect", "Print what a file or folder of data holds");
  inspect
      ->add_option("PATH", commands.inspect.path,
                   "A set, shards, texts, pictures, or a tokenizer's model")
      ->required();
  inspect
      ->add_option("--field", commands.inspect.field,
                   "The member of JSON lines that holds the text")
      ->capture_default_str();
  inspect
      ->add_option("--bad-images", commands.inspect.bad_images,
                   "stop: the first bad picture is an error; skip:N: up to N are left out")
      ->check(bad_images_check())
      ->capture_default_str();
  inspect->callback(
      [&] { commands.chosen = [&] { commands.actions.data_inspect(commands.inspect); }; });
  auto* verify = sub->add_subcommand("verify", "Read every byte of a set and check it");
  verify
      ->add_option("PATH", commands.verify_path,
                   "Tokens: the name of PATH.bin and PATH.idx; or pictures")
      ->required();
  verify->callback(
      [&] { commands.chosen = [&] { commands.actions.data_verify(commands.verify_path); }; });
}

}  // namespace fourfold::command_line
