// Runs a fuzz target without libFuzzer, with its options: mutates seeds in an order that -seed
// decides, until time is up. A crash, an exception or an input that takes too long is written to a
// file that reproduces it. Where clang is, -fsanitize=fuzzer takes this file's place.
#include <fcntl.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/target.h"

// A function of the sanitizers, where they are linked in.
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

struct Options {
  double seconds = 10;
  std::uint64_t seed = 1;
  std::size_t most_bytes = 4096;
  unsigned timeout_s = 20;  // of one input, in time of the processor
  std::vector<std::string> paths;
};

// Read when the process is dying, so neither on the heap nor on a stack that may be gone.
std::array<char, std::size_t{1} << 21> current;
std::size_t current_size = 0;
bool is_running = false;

void say(std::string_view text) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

/// Only calls that a signal handler may make.
void keep_input() {
  if (!is_running) return;
  is_running = false;
  const char* name = "fuzz-finding";
  const int file = ::open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file >= 0) {
    [[maybe_unused]] const ssize_t written = ::write(file, current.data(), current_size);
    ::close(file);
  }
  say("\nfuzz: FOUND: the input is kept in the file fuzz-finding here; to repeat it, give that "
      "file "
      "alone as argument\n");
}

/// As libFuzzer ends.
constexpr int found_code = 77;

void on_signal(int signal) {
  if (signal == SIGPROF) say("\nfuzz: one input takes too long\n");
  keep_input();
  ::_exit(found_code);
}

void watch_for_death() {
  for (const int signal : {SIGPROF, SIGABRT}) ::signal(signal, on_signal);
  // The sanitizers catch the others themselves and then call back.
  if (__sanitizer_set_death_callback != nullptr)
    __sanitizer_set_death_callback(keep_input);
  else
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) ::signal(signal, on_signal);
}

/// Time of the processor, not of the clock: on a busy machine a fuzzer may wait long for its turn.
void limit_time(unsigned seconds) {
  itimerval limit{};
  limit.it_value.tv_sec = seconds;
  ::setitimer(ITIMER_PROF, &limit, nullptr);
}

/// True when the target took the input as it should.
bool run_one(std::string_view input, const Options& options) {
  current_size = std::min(input.size(), current.size());
  std::memcpy(current.data(), input.data(), current_size);
  is_running = true;
  limit_time(options.timeout_s);
  try {
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "\nfuzz: an exception left the target: %s\n", error.what());
    keep_input();
    return false;
  }
  limit_time(0);
  is_running = false;
  return true;
}

std::vector<std::string> read_inputs(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    if (fs::is_directory(path)) {
      for (const auto& entry : fs::recursive_directory_iterator(path))
        if (entry.is_regular_file()) files.push_back(entry.path().string());
    } else {
      files.push_back(path);
    }
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> inputs;
  for (const std::string& file : files) {
    std::ifstream stream(file, std::ios::binary);
    if (!stream) {
      std::fprintf(stderr, "fuzz: %s cannot be read\n", file.c_str());
      std::exit(2);
    }
    std::stringstream text;
    text << stream.rdbuf();
    inputs.push_back(text.str());
  }
  return inputs;
}

/// The words and signs of the seeds: what mutations are made of.
std::vector<std::string> words_of(const std::vector<std::string>& inputs) {
  std::set<std::string> words;
  const auto is_word = [](char byte) {
    return std::isalnum(static_cast<unsigned char>(byte)) != 0 || byte == '_' || byte == '.';
  };
  for (const std::string& input : inputs) {
    std::string word;
    for (const char byte : input) {
      if (is_word(byte)) {
        word += byte;
        continue;
      }
      if (!word.empty() && word.size() < 64) words.insert(word);
      word.clear();
      words.insert(std::string(1, byte));
    }
  }
  return {words.begin(), words.end()};
}

class Mutator {
 public:
  Mutator(std::vector<std::string> inputs, std::uint64_t seed)
      : inputs_(std::move(inputs)), words_(words_of(inputs_)), random_(seed) {
    if (inputs_.empty()) inputs_.emplace_back();
    if (words_.empty()) words_.emplace_back("0");
  }

  std::string next(std::size_t most_bytes) {
    std::string input = pick(inputs_);
    for (std::size_t changes = 1 + below(8); changes > 0; --changes) change(input);
    if (input.size() > most_bytes) input.resize(most_bytes);
    return input;
  }

 private:
  std::size_t below(std::size_t bound) { return bound == 0 ? 0 : random_() % bound; }
  const std::string& pick(const std::vector<std::string>& list) { return list[below(list.size())]; }
  std::string piece(const std::string& text) {
    const std::size_t begin = below(text.size() + 1);
    return text.substr(begin, below(std::min<std::size_t>(text.size() - begin, 200) + 1));
  }

  void change(std::string& input) {
    const std::size_t at = below(input.size() + 1);
    switch (below(9)) {
      case 0:
        if (at < input.size()) input[at] = static_cast<char>(input[at] ^ (1 << below(8)));
        break;
      case 1:
        if (at < input.size()) input[at] = static_cast<char>(below(256));
        break;
      case 2:
        input.erase(at, 1 + below(40));
        break;
      case 3:
        input.resize(at);
        break;
      case 4:
      case 5:
        input.insert(at, pick(words_));
        break;
      case 6:
        input.insert(at, piece(pick(inputs_)));
        break;
      case 7:
        replace_word(input, at);
        break;
      default:
        repeat(input, at);
    }
  }
  void replace_word(std::string& input, std::size_t at) {
    const auto end = input.find_first_of(" \n:,[]{}", at);
    if (at < input.size()) input.replace(at, std::min(end, input.size()) - at, pick(words_));
  }
  void repeat(std::string& input, std::size_t at) {
    const std::string part = input.substr(at, 1 + below(8));
    std::string many;
    for (std::size_t times = below(64); times > 0; --times) many += part;
    input.insert(at, many);
  }

  std::vector<std::string> inputs_;
  std::vector<std::string> words_;
  std::mt19937_64 random_;
};

/// The value after "-name=", or nullptr.
const char* value_of(const char* argument, std::string_view name) {
  const std::string_view text = argument;
  return text.starts_with(name) ? argument + name.size() : nullptr;
}

Options read_options(int argc, char** argv) {
  Options options;
  const char* seconds = std::getenv("FOURFOLD_FUZZ_SECONDS");
  for (int i = 1; i < argc; ++i) {
    if (const char* value = value_of(argv[i], "-max_total_time="))
      options.seconds = std::atof(value);
    else if (const char* number = value_of(argv[i], "-seed="))
      options.seed = std::strtoull(number, nullptr, 10);
    else if (const char* size = value_of(argv[i], "-max_len="))
      options.most_bytes = std::min<std::size_t>(std::strtoull(size, nullptr, 10), current.size());
    else if (const char* limit = value_of(argv[i], "-timeout="))
      options.timeout_s = static_cast<unsigned>(std::atoi(limit));
    else if (argv[i][0] != '-')
      options.paths.emplace_back(argv[i]);
    else
      std::fprintf(stderr, "fuzz: %s is not known here\n", argv[i]), std::exit(2);
  }
  if (seconds != nullptr) options.seconds = std::atof(seconds);
  return options;
}

int fuzz(const Options& options) {
  const std::vector<std::string> inputs = read_inputs(options.paths);
  for (const std::string& input : inputs)
    if (!run_one(input, options)) return found_code;
  const bool is_one_file = options.paths.size() == 1 && !fs::is_directory(options.paths[0]);
  if (is_one_file) {
    std::printf("fuzz: %s: nothing found\n", options.paths[0].c_str());
    return 0;
  }
  Mutator mutator(inputs, options.seed);
  const auto begin = Clock::now();
  std::uint64_t executions = inputs.size();
  std::chrono::duration<double> elapsed{0};
  while (elapsed.count() < options.seconds) {
    if (!run_one(mutator.next(options.most_bytes), options)) return found_code;
    ++executions;
    elapsed = Clock::now() - begin;
  }
  std::printf("fuzz: %llu executions from %zu seeds in %.0f s, seed %llu: nothing found\n",
              static_cast<unsigned long long>(executions), inputs.size(), elapsed.count(),
              static_cast<unsigned long long>(options.seed));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = read_options(argc, argv);
  watch_for_death();
  return fuzz(options);
}
