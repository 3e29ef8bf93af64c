#include "tenon/vocab/gguf.h"

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace tenon::vocab {
namespace {

using namespace std::string_literals;
using Type = GgufFile::Type;

/// Writes GGUF, valid or not.
class Writer {
 public:
  Writer& bytes(std::string_view text) {
    out_ += text;
    return *this;
  }
  template <class T>
  Writer& number(T value) {
    char raw[sizeof value];
    std::memcpy(raw, &value, sizeof value);
    return bytes({raw, sizeof value});
  }
  Writer& type(Type value) { return number(static_cast<std::uint32_t>(value)); }
  Writer& text(std::string_view value) { return number(std::uint64_t{value.size()}).bytes(value); }
  Writer& header(std::uint64_t tensors, std::uint64_t keys, std::uint32_t version = 3) {
    return bytes("GGUF").number(version).number(tensors).number(keys);
  }
  Writer& tensor(std::string_view name, std::vector<std::uint64_t> shape, std::uint32_t type,
                 std::uint64_t offset) {
    text(name).number(static_cast<std::uint32_t>(shape.size()));
    for (const std::uint64_t length : shape) number(length);
    return number(type).number(offset);
  }
  Writer& pad(std::size_t to) {
    out_.resize((out_.size() + to - 1) / to * to);
    return *this;
  }
  std::string str() const { return out_; }

 private:
  std::string out_;
};

std::string good_file() {
  return Writer()
      .header(2, 7)
      .text("general.architecture")
      .type(Type::string)
      .text("llama")
      .text("llama.block_count")
      .type(Type::uint32)
      .number(std::uint32_t{6})
      .text("flag")
      .type(Type::boolean)
      .number(std::uint8_t{1})
      .text("tokens")
      .type(Type::array)
      .type(Type::string)
      .number(std::uint64_t{3})
      .text("a")
      .text("")
      .text("ccc")
      .text("types")
      .type(Type::array)
      .type(Type::int32)
      .number(std::uint64_t{2})
      .number(std::int32_t{-1})
      .number(std::int32_t{7})
      .text("scale")
      .type(Type::float32)
      .number(1.5F)
      .text("double")
      .type(Type::float64)
      .number(-0.1)
      .tensor("w", {32, 2}, 8, 0)  // Q8_0: 2 blocks of 34 bytes
      .tensor("b", {4}, 0, 96)     // F32: 16 bytes
      .pad(32)
      .bytes(std::string(112, 'x'))
      .str();
}

TEST(Gguf, ReadsWhatIsThere) {
  const std::string file = good_file();
  const auto parsed = GgufFile::parse(file);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->version(), 3U);
  EXPECT_EQ(parsed->key_count(), 7U);
  EXPECT_EQ(parsed->string("general.architecture"), "llama");
  EXPECT_EQ(parsed->integer("llama.block_count"), 6);
  EXPECT_EQ(parsed->number("llama.block_count"), 6.0);
  EXPECT_EQ(parsed->number("scale"), 1.5);
  EXPECT_EQ(parsed->number("double"), -0.1);
  EXPECT_EQ(parsed->boolean("flag"), true);
  EXPECT_EQ(parsed->strings("tokens"), (std::vector<std::string_view>{"a", "", "ccc"}));
  EXPECT_EQ(parsed->integers("types"), (std::vector<std::int64_t>{-1, 7}));
  ASSERT_EQ(parsed->tensors().size(), 2U);
  EXPECT_EQ(parsed->tensors()[0].name, "w");
  EXPECT_EQ(parsed->tensors()[0].shape, (std::vector<std::uint64_t>{32, 2}));
}

TEST(Gguf, ValuesOfAnotherKindAreAbsent) {
  const std::string file = good_file();
  const auto parsed = GgufFile::parse(file);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->string("llama.block_count"), std::nullopt);
  EXPECT_EQ(parsed->integer("general.architecture"), std::nullopt);
  EXPECT_EQ(parsed->integer("scale"), std::nullopt);
  EXPECT_EQ(parsed->integer("flag"), std::nullopt);
  EXPECT_EQ(parsed->number("general.architecture"), std::nullopt);
  EXPECT_EQ(parsed->number("flag"), std::nullopt);
  EXPECT_EQ(parsed->number("types"), std::nullopt);
  EXPECT_EQ(parsed->boolean("llama.block_count"), std::nullopt);
  EXPECT_TRUE(parsed->strings("types").empty());
  EXPECT_TRUE(parsed->integers("tokens").empty());
  EXPECT_TRUE(parsed->strings("general.architecture").empty());
  EXPECT_FALSE(parsed->has("nothing"));
}

// A file cut anywhere is refused, and nothing outside the cut is read (ASan watches the copy).
TEST(Gguf, RefusesEveryPrefix) {
  const std::string file = good_file();
  for (std::size_t length = 0; length < file.size(); ++length) {
    const std::vector<char> cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(length));
    const auto parsed = GgufFile::parse({cut.data(), cut.size()});
    ASSERT_FALSE(parsed) << length;
    EXPECT_EQ(parsed.error().code, Errc::invalid) << length;
  }
}

TEST(Gguf, SurvivesEveryFlippedBit) {
  const std::string file = good_file();
  std::size_t refused = 0;
  for (std::size_t bit = 0; bit < file.size() * 8; ++bit) {
    std::vector<char> flipped(file.begin(), file.end());
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    const auto parsed = GgufFile::parse({flipped.data(), flipped.size()});
    if (!parsed) {
      ++refused;
      EXPECT_FALSE(parsed.error().message.empty());
      continue;
    }
    for (const char* key : {"tokens", "types"}) {
      static_cast<void>(parsed->strings(key));
      static_cast<void>(parsed->integers(key));
    }
  }
  EXPECT_GT(refused, file.size());
}

struct Bad {
  std::string_view name;
  std::string file;
  Errc code;
  std::string_view message;
};

constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();

const Bad kBad[] = {
    {"Empty", "", Errc::invalid, "the file is empty"},
    {"Text", "Once upon a time", Errc::invalid, "it is not a GGUF file"},
    {"MagicAlone", "GGUF", Errc::invalid,
     "the file is cut off or damaged: it ends at byte 4, where 4 bytes are said to follow byte 4"},
    {"VersionOne", Writer().header(0, 0, 1).str(), Errc::unsupported,
     "GGUF version 1 is not supported, only 2 and 3"},
    {"BigEndian", "GGUF\0\0\0\3"s.append(16, '\0'), Errc::unsupported,
     "it is a big-endian GGUF file"},
    {"TooManyTensors", Writer().header(kHuge, 0).str(), Errc::limit_exceeded,
     "it claims 18446744073709551615 tensors and 0 keys"},
    {"TooManyKeys", Writer().header(0, 1 << 20).str(), Errc::limit_exceeded,
     "it claims 0 tensors and 1048576 keys"},
    {"KeyLongerThanTheFile", Writer().header(0, 1).number(kHuge).str(), Errc::invalid,
     "the file is cut off or damaged: it ends at byte 32, where 18446744073709551615 bytes are "
     "said "
     "to follow byte 32"},
    {"UnknownType", Writer().header(0, 1).text("k").number(std::uint32_t{13}).str(), Errc::invalid,
     "value type 13 does not exist (at byte 37)"},
    {"NestedArray",
     Writer().header(0, 1).text("k").type(Type::array).type(Type::array).number(kHuge).str(),
     Errc::invalid, "an array of arrays (at byte 49)"},
    {"ArrayLongerThanAnything",
     Writer().header(0, 1).text("k").type(Type::array).type(Type::int64).number(kHuge).str(),
     Errc::invalid, "an array of 18446744073709551615 elements (at byte 49)"},
    {"StringsWithoutEnd",
     Writer().header(0, 1).text("k").type(Type::array).type(Type::string).number(kHuge).str(),
     Errc::invalid,
     "the file is cut off or damaged: it ends at byte 49, where 8 bytes are said to follow byte "
     "49"},
    {"KeyTwice",
     Writer()
         .header(0, 2)
         .text("k")
         .type(Type::uint8)
         .bytes("1")
         .text("k")
         .type(Type::uint8)
         .bytes("1")
         .str(),
     Errc::invalid, "the key 'k' occurs twice (at byte 52)"},
    {"TensorOfFiveDimensions", Writer().header(1, 0).tensor("t", {1, 1, 1, 1, 1}, 0, 0).str(),
     Errc::invalid, "a tensor of 5 dimensions (at byte 37)"},
    {"TensorBehindTheEnd", Writer().header(1, 0).tensor("t", {4}, 0, 64).pad(32).str(),
     Errc::invalid, "the file is cut off or damaged: tensor 't' ends behind its end"},
    {"TensorOffsetWraps", Writer().header(1, 0).tensor("t", {4}, 0, kHuge - 7).pad(32).str(),
     Errc::invalid, "the file is cut off or damaged: tensor 't' ends behind its end"},
    {"TensorShapeWraps",
     Writer().header(1, 0).tensor("t", {1ULL << 32, 1ULL << 32}, 0, 0).pad(32).str(), Errc::invalid,
     "the shape of tensor 't' is larger than any memory"},
    {"AlignmentOfThree",
     Writer()
         .header(0, 1)
         .text("general.alignment")
         .type(Type::uint32)
         .number(std::uint32_t{3})
         .str(),
     Errc::invalid, "an alignment of 3 bytes"},
};

class BadGguf : public ::testing::TestWithParam<Bad> {};

TEST_P(BadGguf, IsRefusedInWords) {
  const auto parsed = GgufFile::parse(GetParam().file);
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error(), (Error{GetParam().code, std::string(GetParam().message)}));
}

INSTANTIATE_TEST_SUITE_P(Files, BadGguf, ::testing::ValuesIn(kBad),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Gguf, OpensFiles) {
  const std::string path = ::testing::TempDir() + "gguf_test.gguf";
  std::ofstream(path, std::ios::binary) << good_file();
  {
    const auto opened = GgufFile::open(path);
    ASSERT_TRUE(opened) << opened.error().message;
    const auto copy = *opened;  // the mapping lives as long as the last copy
    EXPECT_EQ(copy.string("general.architecture"), "llama");
  }
  std::remove(path.c_str());
  EXPECT_EQ(GgufFile::open(path).error(), (Error{Errc::unavailable, "No such file or directory"}));
  EXPECT_EQ(GgufFile::open("/").error(), (Error{Errc::invalid, "it is not a file"}));
  EXPECT_EQ(GgufFile::open("/dev/zero").error(), (Error{Errc::invalid, "it is not a file"}));
}

}  // namespace
}  // namespace tenon::vocab
