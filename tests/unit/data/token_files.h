// Sets of tokens in a folder of the test, made byte by byte from the format's description and not
// by the code under test.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace fourfold::data {

using Documents = std::vector<std::vector<std::int64_t>>;

/// Numbers appended as little-endian bytes.
class Bytes {
 public:
  template <class T>
  Bytes& add(T value) {
    char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    text_.append(bytes, sizeof(T));
    return *this;
  }
  Bytes& add_id(std::int64_t id, int size) {
    char bytes[8];
    std::memcpy(bytes, &id, 8);
    text_.append(bytes, static_cast<std::size_t>(size));
    return *this;
  }
  Bytes& add_text(const std::string& text) {
    text_ += text;
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

inline void write_bytes(const std::string& path, const std::string& bytes) {
  // A new file: some file systems flush one that is written over.
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// One sequence a document. Codes: 1 u8, 3 i16, 4 i32, 5 i64, 8 u16.
inline std::string megatron_index_bytes(const Documents& documents, int code = 8) {
  const int size = code == 1 ? 1 : code == 5 ? 8 : code == 4 ? 4 : 2;
  Bytes idx;
  idx.add_text(std::string("MMIDIDX\0\0", 9)).add(std::uint64_t{1});
  idx.add(static_cast<std::uint8_t>(code)).add(std::uint64_t{documents.size()});
  idx.add(std::uint64_t{documents.size() + 1});
  for (const auto& document : documents) idx.add(static_cast<std::int32_t>(document.size()));
  std::int64_t offset = 0;
  for (const auto& document : documents) {
    idx.add(offset);
    offset += static_cast<std::int64_t>(document.size()) * size;
  }
  for (std::size_t i = 0; i <= documents.size(); ++i) idx.add(static_cast<std::int64_t>(i));
  return idx.text();
}

inline void write_megatron(const std::string& prefix, const Documents& documents, int code = 8) {
  const int size = code == 1 ? 1 : code == 5 ? 8 : code == 4 ? 4 : 2;
  Bytes bin;
  for (const auto& document : documents)
    for (const std::int64_t id : document) bin.add_id(id, size);
  write_bytes(prefix + ".bin", bin.text());
  write_bytes(prefix + ".idx", megatron_index_bytes(documents, code));
}

/// Documents of so many tokens each; tokens count 0, 1, ... through all of them, modulo `modulus`.
inline Documents counting_documents(const std::vector<std::size_t>& sizes,
                                    std::int64_t modulus = std::int64_t{1} << 40) {
  Documents documents;
  std::int64_t next = 0;
  for (const std::size_t size : sizes) {
    auto& document = documents.emplace_back();
    for (std::size_t i = 0; i < size; ++i) document.push_back(next++ % modulus);
  }
  return documents;
}

/// A folder that goes away with the test.
class DataFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::temp_directory_path() /
              (std::string("fourfold-data-") + info->name() + "-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

 private:
  std::filesystem::path folder_;
};

}  // namespace fourfold::data
