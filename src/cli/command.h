// What a subcommand is, and the table of all. A file of commands/ adds its commands to the table by
// a function of its name; CMake makes the list of these functions from the names of the files
// (scripts/cmake/Commands.cmake). Not how a line is read: parse.h.
#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cli/completion.h"
#include "cli/option_list.h"

namespace fourfold::cli {

/// The name of the command that stands before another one in help; empty: that is the first one.
struct After {
  std::string name = {};
};

/// What help says of a command beside its options.
struct CommandWords {
  std::string path;  // "train"; "data verify": stands below `data`, which is added by itself
  After after;
  std::string meaning;
  std::string example;  // a line without the program's name; empty: none
};

/// A command whose options are listed. One that others stand below does nothing itself.
class Command {
 public:
  Command(CommandWords its_words, const Caller& caller)
      : words(std::move(its_words)), options(caller) {}
  virtual ~Command() = default;
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  /// What is wrong with options that were given together, "--text: is a whole job"; empty: nothing.
  virtual std::string fault() const { return {}; }
  /// Does what the command is for, once its options are filled. Errors: UserError of each command.
  virtual void run() const {}

  const CommandWords words;
  OptionList options;
};

/// A command with its arguments.
template <class Arguments>
class CommandOf : public Command {
 public:
  using Act = void (*)(const Arguments&);
  using Fault = std::string (*)(const Arguments&);

  CommandOf(CommandWords its_words, const Caller& caller, void (*list)(OptionList&, Arguments&),
            Act act, Fault says_fault)
      : Command(std::move(its_words), caller), act_(act), says_fault_(says_fault) {
    list(options, arguments_);
  }
  std::string fault() const override {
    return says_fault_ == nullptr ? std::string() : says_fault_(arguments_);
  }
  void run() const override { act_(arguments_); }

 private:
  Arguments arguments_;
  Act act_;
  Fault says_fault_;
};

/// All commands, added in any order.
class Commands {
 public:
  explicit Commands(Caller caller) : caller_(std::move(caller)) {}
  Commands(const Commands&) = delete;
  Commands& operator=(const Commands&) = delete;

  /// Adds a command. `list` lists its options, which fill the arguments; `act` gets these, returns
  /// when done and throws UserError otherwise; `fault` says what is wrong with them together.
  template <class Arguments>
  void add(CommandWords words, std::type_identity_t<void (*)(OptionList&, Arguments&)> list,
           void (*act)(const Arguments&),
           std::type_identity_t<std::string (*)(const Arguments&)> fault = nullptr) {
    commands_.push_back(
        std::make_unique<CommandOf<Arguments>>(std::move(words), caller_, list, act, fault));
  }
  /// Adds a command that others stand below.
  void add_group(CommandWords words) {
    commands_.push_back(std::make_unique<Command>(std::move(words), caller_));
  }

  /// The commands below this one, "" for the program itself, in the order of help: each follows the
  /// one that it names, and by name those that name the same one.
  std::vector<Command*> below(const std::string& path) const;
  /// The program with its commands, as completion and messages describe them.
  CommandSpec spec() const;

 private:
  Caller caller_;
  std::vector<std::unique_ptr<Command>> commands_;
};

/// Adds every command there is: the functions of all files of commands/.
void add_commands(Commands& commands);

/// The last word of a path.
std::string name_of(const Command& command);

}  // namespace fourfold::cli
