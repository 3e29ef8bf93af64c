#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/jinja/value.h"

/// A compiled template: nodes of 24 bytes in one array, which refer to each other by number. The
/// parser writes them, the resolver decides where the value of each name is kept, and the Vm reads
/// them.
namespace tenon::jinja {

using NodeId = std::uint32_t;
inline constexpr NodeId kNoNode = ~0U;

enum class Op : std::uint8_t {
  // Expressions. The comments say what the fields a, b, c and d hold.
  constant,   // a: constant
  name,       // a: name, then slot; b: name as constant; flags: Place; d: functions to walk out
  get_attr,   // a: object; b: constant; c: method that name may be
  get_item,   // a: object; b: index
  get_slice,  // a: object; b, c, d: start, stop, step; flags: all of it is constant
  slice,      // b, c, d
  call,       // a: callee; b: arguments
  filter,     // a: value or kNoNode; b: arguments; c: filter; d: constant, its name
  test,       // a: value; b: arguments; c: test; d: constant, its name
  logic_not,  // a
  negative,
  positive,
  logic_and,  // a, b
  logic_or,
  add,
  subtract,
  multiply,
  divide,
  floor_divide,
  modulo,
  power,
  concat,     // list a, b long
  compare,    // list a, b long: first, then pairs of Compare and node
  condition,  // a: test; b: value; c: other value or kNoNode
  list,       // list a, b long
  tuple,
  dict,    // list a, b long: key and value in turn
  ns_ref,  // target only; as name; c: constant, the attribute

  // Statements.
  text,          // a: constant
  print,         // a: expression
  loop,          // a: ForNode
  branch,        // list a, b long: test and body in turn; c: else body
  set,           // a: target; b: value; list c, d long: names of namespaces to check
  set_block,     // a: BlockNode
  filter_block,  // a: BlockNode
  macro,         // a: MacroNode
  call_block,    // a: MacroNode; b: call
  with,          // a: BlockNode
  scope,         // a: BlockNode
  block,         // a: BlockNode
  unloadable,    // include, import, extends; a: template
  breaks,
  continues,
};

enum class Compare : std::uint8_t { eq, ne, lt, le, gt, ge, in, not_in };

/// Where a name's value is. `local`: in a slot of a function's frame; `global`: a context variable,
/// looked up once; `exported`: in a slot of the root frame if it is set there, else in the context.
enum class Place : std::uint8_t { local, global, exported };

struct Node {
  Op op;
  std::uint8_t flags;
  std::uint16_t height;  // of the tree below, which bounds the recursion of walks over it
  std::uint32_t position;
  std::uint32_t a, b, c, d;
};

/// A run of statements or names in Program::lists.
struct ListRef {
  std::uint32_t begin = 0;
  std::uint32_t size = 0;
};

/// What happens when a scope is entered: slots are unset, or filled from outside.
struct Load {
  enum class Kind : std::uint8_t { unset, local, global } kind;
  std::uint16_t hops;  // of a local: functions to walk out
  std::uint32_t slot;
  std::uint32_t source;  // the slot or global to read
};
struct LoadRef {
  std::uint32_t begin = 0;
  std::uint32_t size = 0;
};

struct Arguments {
  ListRef positional;  // nodes
  ListRef keywords;    // constant and node in turn
  NodeId star = kNoNode;
  NodeId double_star = kNoNode;
};

struct ForNode {
  NodeId target, iterable;
  NodeId test = kNoNode;
  NodeId test_target = kNoNode;
  ListRef body, otherwise;
  bool has_else = false;
  bool is_recursive = false;
  bool has_loop = false;  // the body reads `loop`
  std::uint32_t loop_slot = 0;
  std::uint32_t slot_count = 0;  // of a recursive loop, which is a function
  LoadRef body_loads, test_loads, else_loads;
};

struct BlockNode {
  std::uint32_t name = 0;   // constant, of a block
  NodeId target = kNoNode;  // of a set block
  NodeId filter = kNoNode;  // of set and filter blocks
  ListRef targets, values;  // of with
  ListRef body;
  LoadRef loads;
  std::uint32_t slot_count = 0;  // of a block, which is a function
  // The slots that hold these names in a generation block (a call block in jinja2), if its body
  // reads them.
  std::uint32_t caller_slot = kNoNode, kwargs_slot = kNoNode, varargs_slot = kNoNode;
  bool is_required = false;
};

struct MacroNode {
  std::uint32_t name = kNoNode;  // constant; kNoNode: a call block
  NodeId target = kNoNode;       // a name node
  ListRef parameters;            // name nodes
  ListRef defaults;              // of the last parameters
  ListRef body;
  LoadRef loads;
  std::uint32_t slot_count = 0;
  std::uint32_t caller_slot = kNoNode, kwargs_slot = kNoNode, varargs_slot = kNoNode;
  bool has_explicit_caller = false;
};

struct Program {
  Program() : memory(std::size_t{256} << 20) {}

  std::string name;    // the template's name in errors
  std::string source;  // newlines are normalised; text constants are views of it
  Arena memory;        // unescaped literals and long integers
  std::vector<Node> nodes;
  std::vector<std::uint32_t> lists;
  std::vector<Value> constants;
  std::vector<Arguments> arguments;
  std::vector<Load> loads;
  std::vector<ForNode> loops;
  std::vector<BlockNode> blocks;
  std::vector<MacroNode> macros;
  std::vector<std::uint32_t> globals;          // constants: names looked up in the context
  std::vector<std::uint32_t> template_blocks;  // BlockNodes of {% block %}
  ListRef body;
  LoadRef root_loads;
  std::uint32_t slot_count = 0;  // of the root function
  bool superset = false;

  [[nodiscard]] std::string_view text_of(std::uint32_t constant) const {
    return constants[constant].bytes();
  }
};

/// Lines and columns count from 1. Columns count code points.
struct LineColumn {
  std::size_t line, column;
};
[[nodiscard]] LineColumn locate(std::string_view source, std::size_t position);

struct CompileOptions;

/// Reads `source` into `program`. Throws Fault.
void parse(Program& program, std::string_view source, const CompileOptions& options);
/// Gives every name a slot as jinja2's idtracking does, and checks the names of filters and tests.
/// Throws Fault.
void resolve(Program& program);

}  // namespace tenon::jinja
