// Files that are made to take whoever reads them all memory or all time. Header only.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "base/format.h"

namespace fourfold::test {

inline std::string repeated(const std::string& text, std::size_t count) {
  std::string all;
  for (std::size_t i = 0; i < count; ++i) all += text;
  return all;
}

/// Texts for the reader of YAML, as large as it takes them.
inline std::vector<std::string> hostile_yaml() {
  constexpr std::size_t size = std::size_t{1} << 20;
  std::string bomb = "a0: &a0 [x, x]\n";
  for (int i = 1; i < 30; ++i) bomb += format("a{}: &a{} [*a{}, *a{}]\n", i, i, i - 1, i - 1);
  std::string deep;
  for (std::size_t i = 0; i < 1000; ++i) deep += std::string(i, ' ') + "a:\n";
  return {bomb,
          deep,
          repeated("- ", size / 2 - 1),
          std::string(size, '['),
          std::string(size, '{'),
          std::string(size, '?'),
          std::string(size, '&'),
          std::string(size, ':'),
          "a: \"" + std::string(size - 4, 'x'),
          "a: " + std::string(size - 3, '*'),
          std::string(size, '-'),
          std::string(size, '!'),
          std::string(size, ']')};
}

/// A configuration without anything odd, for comparison.
constexpr const char* plain_config = "data: {format: synthetic}\nmodel: {vocab_size: 64}\n";

/// Configurations by what they are made of; `file` is where they will lie.
inline std::vector<std::pair<std::string, std::string>> config_bombs(const std::string& file) {
  std::string aliases = "a: &a [x, x, x, x, x, x, x, x, x]\n";
  for (char name = 'b'; name <= 'i'; ++name)
    aliases += format("{}: &{} [{}*{}]\n", name, name,
                      repeated(format("*{}, ", static_cast<char>(name - 1)), 8),
                      static_cast<char>(name - 1));
  return {{"aliases", aliases},
          {"nesting in brackets", std::string(100'000, '[')},
          {"nesting in braces", repeated("{a: ", 100'000)},
          {"nesting by dashes", repeated("- ", 100'000)},
          {"many nodes", "x: [" + repeated("1, ", 300'000) + "1]\n"},
          {"many keys", repeated("k: 1\n", 200'000)},
          {"long scalar", "run: {name: " + std::string(1'000'000, 'x') + "}\n"},
          {"long comment", "#" + std::string(std::size_t{2} << 20, 'x')},
          {"merge keys", "a: &a {x: 1}\nb:\n" + repeated("  <<: *a\n", 50'000)},
          {"tags", repeated("- !!python/object/apply:os.system [id]\n", 20'000)},
          {"documents", repeated("---\na: 1\n", 100'000)},
          {"include of itself", "extends: " + file + "\n"},
          {"escapes", "run: {name: \"" + repeated("\\u0041", 100'000) + "\"}\n"}};
}

}  // namespace fourfold::test
