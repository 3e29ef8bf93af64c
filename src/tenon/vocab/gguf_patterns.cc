#include "tenon/vocab/gguf_patterns.h"

#include <utility>

// The names are those of llama.cpp. The patterns are those of the models' own tokenizer.json where
// llama.cpp quotes them, else llama.cpp's. These need more than patterns and are left out: kimi-k2,
// superbpe, afmoe, chameleon, whitespace.
// Source: https://github.com/ggml-org/llama.cpp/blob/master/src/llama-vocab.cpp (llm_tokenizer_bpe)
namespace tenon::vocab {
namespace {

constexpr std::string_view kWordsGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))";
constexpr std::string_view kDigit = R"(\p{N})";
constexpr std::string_view kLines = R"([^\n]+|[\n]+)";
constexpr std::string_view kWordsQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kWordsGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kPunctuationWords =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kHanAndKana = R"([一-龥぀-ゟ゠-ヿ]+)";
constexpr std::string_view kNotPunctuation = R"( ?[^(\s|.,!?…。，、।۔،)]+)";

// Several patterns cut one after the other: each isolates its matches in the pieces that are left.
constexpr GgufPattern kDefault = {{R"([\p{P}\$\+<=>\^~\|]+)", kWordsGpt2, R"(\p{N}+)", "[0-9]{3}"}};
constexpr GgufPattern kLlama3 = {
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    true,
    true};
// The same pattern with other flags: prefers_whole, adds_bos.
constexpr GgufPattern kLlama3ByMerges = {kLlama3.patterns};
constexpr GgufPattern kLlama3Whole = {kLlama3.patterns, true};
constexpr GgufPattern kJais2 = {
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})"}};
constexpr GgufPattern kDeepseekLlm = {
    {R"([\r\n])",
     R"(\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+)",
     R"(\s?[!-/:-~！-／：-～‘-‟　-。]+)", R"(\s+\z)", R"([一-龥ࠀ-一가-퟿]+)", R"(\p{N}+)"}};
constexpr GgufPattern kDeepseekCoder = {
    {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", R"([一-龥ࠀ-一가-퟿]+)", kDigit}};
constexpr GgufPattern kDeepseek3 = {{R"(\p{N}{1,3})", kHanAndKana, kPunctuationWords}};
constexpr GgufPattern kSpark = {
    {R"(\p{N}{1,3})", kHanAndKana,
     R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+)",
     kDigit}};
constexpr GgufPattern kYoutu = {
    {R"([가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+)",
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    true};
constexpr GgufPattern kFalcon = {{R"([\p{P}\$\+<=>\^~\|`]+)", kWordsGpt2, "[0-9]{3}"}};
constexpr GgufPattern kStarcoder = {{kDigit, kWordsGpt2}};
constexpr GgufPattern kGpt2 = {{kWordsGpt2}};
constexpr GgufPattern kQwen2 = {{kWordsQwen2}};
constexpr GgufPattern kQwen35 = {
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};
constexpr GgufPattern kBloom = {{kNotPunctuation}};
constexpr GgufPattern kViking = {{kNotPunctuation, kDigit}};
constexpr GgufPattern kTekken = {
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    true,
    true};
constexpr GgufPattern kGpt4o = {{kWordsGpt4o}};
constexpr GgufPattern kTinyAya = {{R"(\d{1,3}(?=(?:\d{3})*\b))", kWordsGpt4o}};
constexpr GgufPattern kBailing = {
    {R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"}};
constexpr GgufPattern kSeedCoder = {
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)"}};
constexpr GgufPattern kUfakzeka = {
    {R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};
constexpr GgufPattern kLaguna = {{kLines, kWordsQwen2}};
constexpr GgufPattern kExaoneMoe = {
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)"}};
constexpr GgufPattern kMinicpm5 = {
    {R"(\p{N}{1,3})",
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    true};

// Names in `tokenizer.ggml.pre`. Converters add a name for each model, so many have one pattern.
constexpr std::pair<std::string_view, const GgufPattern*> kNames[] = {
    {"", &kDefault},
    {"default", &kDefault},
    {"llama3", &kLlama3},
    {"llama-v3", &kLlama3},
    {"llama-bpe", &kLlama3},
    {"falcon3", &kLlama3},
    {"falcon-h1", &kLlama3},
    {"pixtral", &kLlama3},
    {"midm-2.0", &kLlama3},
    {"lfm2", &kLlama3},
    {"jina-v5-nano", &kLlama3},
    {"dbrx", &kLlama3ByMerges},
    {"smaug-bpe", &kLlama3ByMerges},
    {"chatglm-bpe", &kLlama3ByMerges},
    {"glm4", &kLlama3Whole},
    {"glm5", &kLlama3Whole},
    {"jais-2", &kJais2},
    {"deepseek-llm", &kDeepseekLlm},
    {"deepseek-coder", &kDeepseekCoder},
    {"deepseek-v3", &kDeepseek3},
    {"hunyuan-dense", &kDeepseek3},
    {"joyai-llm", &kDeepseek3},
    {"hy_v4", &kDeepseek3},
    {"spark2_5", &kSpark},
    {"youtu", &kYoutu},
    {"falcon", &kFalcon},
    {"starcoder", &kStarcoder},
    {"refact", &kStarcoder},
    {"command-r", &kStarcoder},
    {"smollm", &kStarcoder},
    {"codeshell", &kStarcoder},
    {"exaone", &kStarcoder},
    {"minerva-7b", &kStarcoder},
    {"mellum2", &kStarcoder},
    {"gpt-2", &kGpt2},
    {"mpt", &kGpt2},
    {"olmo", &kGpt2},
    {"jais", &kGpt2},
    {"trillion", &kGpt2},
    {"granite-docling", &kGpt2},
    {"phi-2", &kGpt2},
    {"jina-es", &kGpt2},
    {"jina-de", &kGpt2},
    {"jina-v1-en", &kGpt2},
    {"jina-v2-es", &kGpt2},
    {"jina-v2-de", &kGpt2},
    {"jina-v2-code", &kGpt2},
    {"roberta-bpe", &kGpt2},
    {"gigachat", &kGpt2},
    {"a.x-4.0", &kGpt2},
    {"mellum", &kGpt2},
    {"modern-bert", &kGpt2},
    {"exaone4", &kGpt2},
    {"qwen2", &kQwen2},
    {"deepseek-r1-qwen", &kQwen2},
    {"kormo", &kQwen2},
    {"f2llmv2", &kQwen2},
    {"megrez", &kQwen2},
    {"stablelm2", &kQwen2},
    {"hunyuan", &kQwen2},
    {"solar-open", &kQwen2},
    {"grok-2", &kQwen2},
    {"qwen35", &kQwen35},
    {"poro-chat", &kBloom},
    {"bloom", &kBloom},
    {"gpt3-finnish", &kBloom},
    {"viking", &kViking},
    {"tekken", &kTekken},
    {"gpt-4o", &kGpt4o},
    {"llama4", &kGpt4o},
    {"kanana2", &kGpt4o},
    {"talkie", &kGpt4o},
    {"minimax-m2", &kGpt4o},
    {"tiny_aya", &kTinyAya},
    {"cohere2moe", &kTinyAya},
    {"bailingmoe", &kBailing},
    {"bailingmoe2", &kBailing},
    {"llada-moe", &kBailing},
    {"seed-coder", &kSeedCoder},
    {"ufakzeka", &kUfakzeka},
    {"laguna", &kLaguna},
    {"exaone-moe", &kExaoneMoe},
    {"minicpm5", &kMinicpm5},
};

}  // namespace

const GgufPattern* find_gguf_pattern(std::string_view name) {
  for (const auto& [known, pattern] : kNames) {
    if (name == known) return pattern;
  }
  return nullptr;
}

}  // namespace tenon::vocab
