#include <charconv>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <string_view>
#include <unordered_set>

#include "tenon/base/utf8.h"
#include "tenon/jinja/ast.h"
#include "tenon/jinja/big_int.h"
#include "tenon/jinja/builtins.h"
#include "tenon/jinja/filters.h"
#include "tenon/jinja/lexer.h"
#include "tenon/jinja/numbers.h"
#include "tenon/jinja/template.h"
#include "tenon/jinja/tests.h"
#include "tenon/jinja/unicode.h"

/// jinja2's parser, by recursive descent: one function per level of binding, in jinja2's order
/// (condition, or, and, not, compare, sum, concat, product, unary, power, primary, postfix), with
/// the same quirks, such as a filter that binds tighter than a unary minus.
///
/// Nodes are appended to Program::nodes and refer to each other by number; children of lists lie in
/// Program::lists. Names are interned, so that the resolver compares numbers. Lookups by name that
/// need no value (methods, filters, tests) are done here, once. The depth of nesting is counted
/// twice: Deeper bounds the parser's own recursion, and each node stores the height of its tree,
/// because a chain such as `a + b + c` is read by a loop and yet is a deep tree for all walks after
/// it. Where CPython's compiler would refuse what jinja2 generates (two parameters of one name),
/// the parser refuses too.
namespace tenon::jinja {
namespace {

class Parser {
 public:
  Parser(Program& program, const CompileOptions& options)
      : p_(program), max_depth_(options.max_depth) {
    lexemes_ = tokenize(p_.source, options.trim_blocks, options.lstrip_blocks);
    p_.nodes.reserve(lexemes_.size());
    interned_.resize(256);
  }

  void run() {
    p_.body = subparse({});
    if (!at(Token::end)) fail_unknown_tag();
  }

 private:
  using Words = std::initializer_list<std::string_view>;

  class Deeper {
   public:
    explicit Deeper(Parser& parser) : parser_(parser) {
      if (++parser_.depth_ > parser_.max_depth_) parser_.fail_depth();
    }
    ~Deeper() { --parser_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    Parser& parser_;
  };

  // --- tokens

  [[nodiscard]] const Lexeme& now() const { return lexemes_[at_]; }
  // The token behind the next one; at the end of the template, the end again.
  [[nodiscard]] const Lexeme& after() const {
    return lexemes_[at_ + 1 < lexemes_.size() ? at_ + 1 : at_];
  }
  [[nodiscard]] std::string_view text(const Lexeme& lexeme) const {
    return std::string_view(p_.source).substr(lexeme.begin, lexeme.size);
  }
  [[nodiscard]] bool at(Token token) const { return now().token == token; }
  [[nodiscard]] bool at_word(std::string_view word) const {
    return at(Token::name) && text(now()) == word;
  }
  [[nodiscard]] bool at_any(Words words) const {
    for (const std::string_view word : words) {
      if (at_word(word)) return true;
    }
    return false;
  }
  void advance() {
    if (!at(Token::end)) ++at_;
  }
  bool skip(Token token) {
    if (!at(token)) return false;
    advance();
    return true;
  }
  bool skip_word(std::string_view word) {
    if (!at_word(word)) return false;
    advance();
    return true;
  }

  [[noreturn]] void fail_at(std::uint32_t position, std::string message,
                            Errc code = Errc::invalid) const {
    throw Fault{code, "TemplateSyntaxError: " + std::move(message), position};
  }
  [[noreturn]] void fail(std::string message) const { fail_at(now().begin, std::move(message)); }
  [[noreturn]] void fail_depth() const {
    throw Fault{Errc::limit_exceeded,
                "the template nests deeper than " + std::to_string(max_depth_), now().begin};
  }
  [[nodiscard]] std::string describe_now() const {
    return at(Token::name) ? std::string(text(now())) : std::string(describe(now().token));
  }
  // Messages are jinja2's, word for word, because people look them up.
  Lexeme expect(Token token) {
    if (!at(token)) {
      if (at(Token::end)) {
        fail("unexpected end of template, expected '" + std::string(describe(token)) + "'");
      }
      fail("expected token '" + std::string(describe(token)) + "', got '" + describe_now() + "'");
    }
    const Lexeme lexeme = now();
    advance();
    return lexeme;
  }
  void expect_word(std::string_view word) {
    if (!skip_word(word)) {
      fail("expected token '" + std::string(word) + "', got '" + describe_now() + "'");
    }
  }
  // Where a block is not closed, the unknown tag usually is the end of another block. So the
  // message names the block that is open.
  [[noreturn]] void fail_unknown_tag() const {
    std::string message = at(Token::end) ? "Unexpected end of template"
                                         : "Encountered unknown tag '" + describe_now() + "'";
    if (!open_tags_.empty()) {
      message += "; the innermost block that needs to be closed is '" +
                 std::string(open_tags_.back()) + "'";
    }
    fail(std::move(message));
  }

  // --- nodes

  // `height` is that of the highest child. What a to d hold stands beside each Op (ast.h).
  NodeId make(Op op, std::uint32_t position, std::uint32_t a = kNoNode, std::uint32_t b = kNoNode,
              std::uint32_t c = kNoNode, std::uint32_t d = kNoNode, unsigned height = 0) {
    if (height >= max_depth_) fail_depth();
    p_.nodes.push_back({op, 0, static_cast<std::uint16_t>(height + 1), position, a, b, c, d});
    return static_cast<NodeId>(p_.nodes.size() - 1);
  }
  [[nodiscard]] unsigned height(NodeId id) const { return id == kNoNode ? 0 : p_.nodes[id].height; }
  template <class... Ids>
  [[nodiscard]] unsigned height_of(Ids... ids) const {
    unsigned most = 0;
    ((most = std::max(most, height(ids))), ...);
    return most;
  }
  [[nodiscard]] unsigned height_of(const std::vector<NodeId>& ids) const {
    unsigned most = 0;
    for (const NodeId id : ids) most = std::max(most, height(id));
    return most;
  }
  // Children are gathered in a vector first: those of inner lists are appended while it is read,
  // and a list must be one run.
  ListRef list(const std::vector<std::uint32_t>& items) {
    const ListRef ref{static_cast<std::uint32_t>(p_.lists.size()),
                      static_cast<std::uint32_t>(items.size())};
    p_.lists.insert(p_.lists.end(), items.begin(), items.end());
    return ref;
  }
  // Each use is a constant of its own, except for names (intern).
  std::uint32_t constant(Value value) {
    p_.constants.push_back(value);
    return static_cast<std::uint32_t>(p_.constants.size() - 1);
  }
  // Returns the one constant of a name; `name` is a view of the source.
  std::uint32_t intern(std::string_view name) {
    std::size_t hash = 14695981039346656037ULL;
    for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
    for (std::size_t slot = hash;; ++slot) {
      std::uint32_t& entry = interned_[slot & (interned_.size() - 1)];
      if (entry == 0) {
        const std::uint32_t id = constant(make_string(name));
        entry = id + 1;
        if (++interned_count_ * 2 > interned_.size()) grow_interned();
        return id;
      }
      if (p_.text_of(entry - 1) == name) return entry - 1;
    }
  }
  // Open addressing with FNV-1a, by powers of two; an entry is the number of a text plus one, so 0
  // is an empty place. Four times as many places keep it at most a quarter full.
  void grow_interned() {
    std::vector<std::uint32_t> old(interned_.size() * 4);
    old.swap(interned_);
    for (const std::uint32_t entry : old) {
      if (entry == 0) continue;
      std::size_t hash = 14695981039346656037ULL;
      for (const char c : p_.text_of(entry - 1)) {
        hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
      }
      while (interned_[hash & (interned_.size() - 1)] != 0) ++hash;
      interned_[hash & (interned_.size() - 1)] = entry;
    }
  }
  NodeId make_constant(std::uint32_t position, Value value) {
    return make(Op::constant, position, constant(value));
  }
  // Loads of the names that a loop or a macro provides are counted: only a body that reads `loop`
  // pays for a loop object, and only one that reads `caller`, `kwargs` or `varargs` for those.
  NodeId make_name(const Lexeme& lexeme, bool is_load) {
    const std::string_view name = text(lexeme);
    if (is_load) {
      loop_loads_ += name == "loop";
      caller_loads_ += name == "caller";
      kwargs_loads_ += name == "kwargs";
      varargs_loads_ += name == "varargs";
    }
    const std::uint32_t id = intern(name);
    return make(Op::name, lexeme.begin, id, id);
  }

  // --- statements

  // Text, `{{ ... }}` and tags up to a tag of `ends`, which stays to be read. `data` between two
  // tags is one constant, so printing it is one append.
  ListRef subparse(Words ends) {
    const Deeper deeper(*this);
    std::vector<NodeId> body;
    while (!at(Token::end)) {
      const Lexeme first = now();
      if (first.token == Token::data) {
        body.push_back(make(Op::text, first.begin, constant(make_string(text(first)))));
        advance();
      } else if (first.token == Token::variable_begin) {
        advance();
        const NodeId value = parse_tuple();
        body.push_back(make(Op::print, first.begin, value));
        expect(Token::variable_end);
      } else {
        expect(Token::block_begin);
        if (at_any(ends)) return list(body);
        parse_statement(body);
        expect(Token::block_end);
      }
    }
    return list(body);
  }

  // The body of a block tag. jinja2 allows a colon, as in `{% if x: %}`. What ends it stays to be
  // read.
  ListRef parse_statements(Words ends) {
    skip(Token::colon);
    expect(Token::block_end);
    const ListRef body = subparse(ends);
    if (at(Token::end)) fail_unknown_tag();
    return body;
  }
  ListRef parse_body(std::string_view end) {
    const ListRef body = parse_statements({end});
    advance();  // the word alone; subparse() expects the `%}` behind it
    return body;
  }

  // One tag, without its `{%` and `%}`. The name stays in open_tags_ while the statement is read,
  // so that an error in its body can name it.
  void parse_statement(std::vector<NodeId>& body) {
    if (!at(Token::name)) fail("tag name expected");
    const Lexeme tag = now();
    const std::string_view word = text(tag);
    open_tags_.push_back(word);
    if (word == "for") {
      body.push_back(parse_for());
    } else if (word == "if") {
      body.push_back(parse_if());
    } else if (word == "set") {
      body.push_back(parse_set());
    } else if (word == "macro") {
      body.push_back(parse_macro());
    } else if (word == "call") {
      body.push_back(parse_call_block());
    } else if (word == "filter") {
      body.push_back(parse_filter_block());
    } else if (word == "generation" || word == "autoescape") {
      body.push_back(parse_scope(word));
    } else if (word == "break" || word == "continue") {
      advance();
      body.push_back(make(word == "break" ? Op::breaks : Op::continues, tag.begin));
    } else if (word == "with") {
      body.push_back(parse_with());
    } else if (word == "block") {
      body.push_back(parse_block());
    } else if (word == "print") {
      parse_print(body);
    } else if (word == "include" || word == "import" || word == "from" || word == "extends") {
      body.push_back(parse_unloadable(word));
    } else {
      open_tags_.pop_back();
      fail_unknown_tag();
    }
    open_tags_.pop_back();
  }

  // `{% set x = value %}` assigns an expression; without `=` the body up to `endset` is rendered,
  // filtered and assigned as text. `x.y` as a target needs a namespace object, which is checked
  // when the template runs, so its places are kept.
  NodeId parse_set() {
    const std::uint32_t position = now().begin;
    advance();
    const NodeId target = parse_target(true, {});
    if (skip(Token::assign)) {
      const NodeId value = parse_tuple();
      std::vector<std::uint32_t> spaces;
      collect_spaces(target, spaces);
      const ListRef checked = list(spaces);
      return make(Op::set, position, target, value, checked.begin, checked.size);
    }
    BlockNode block;
    block.target = target;
    block.filter = parse_filters(kNoNode, false);
    block.body = parse_body("endset");
    return make_block(Op::set_block, position, block);
  }
  NodeId make_block(Op op, std::uint32_t position, const BlockNode& block) {
    p_.blocks.push_back(block);
    return make(op, position, static_cast<std::uint32_t>(p_.blocks.size() - 1));
  }
  // Collects the namespaces to which a target assigns, each once.
  void collect_spaces(NodeId target, std::vector<std::uint32_t>& spaces) const {
    const Node& node = p_.nodes[target];
    if (node.op == Op::ns_ref) {
      for (const std::uint32_t known : spaces) {
        if (p_.nodes[known].b == node.b) return;
      }
      spaces.push_back(target);
    } else if (node.op == Op::tuple) {
      for (std::uint32_t i = 0; i < node.b; ++i) collect_spaces(p_.lists[node.a + i], spaces);
    }
  }

  // The `if` of a loop is tested as each item is fetched, before the body. The test reads the
  // target once for each item on its own, so it has a copy of the target with slots of its own.
  NodeId parse_for() {
    const std::uint32_t position = now().begin;
    advance();
    ForNode loop;
    loop.target = parse_target(false, {"in"});
    expect_word("in");
    loop.iterable = parse_tuple(false, {"recursive"});
    if (skip_word("if")) {
      loop.test = parse_expression();
      loop.test_target = copy_target(loop.target);
    }
    loop.is_recursive = skip_word("recursive");
    const std::size_t loads = loop_loads_;
    // A loop inside that reads its own `loop` counts too: then this one makes an object for
    // nothing.
    loop.body = parse_statements({"endfor", "else"});
    loop.has_loop = loop.is_recursive || loop_loads_ != loads;
    const bool ends = at_word("endfor");
    advance();
    if (!ends) {
      loop.otherwise = parse_body("endfor");
      loop.has_else = loop.otherwise.size != 0;
    }
    p_.loops.push_back(loop);
    return make(Op::loop, position, static_cast<std::uint32_t>(p_.loops.size() - 1));
  }
  // The condition of a loop binds the loop's names a second time, in slots of its own.
  NodeId copy_target(NodeId target) {
    const Node node = p_.nodes[target];
    if (node.op != Op::tuple) return make(node.op, node.position, node.a, node.b, node.c, node.d);
    std::vector<NodeId> items;
    items.reserve(node.b);
    for (std::uint32_t i = 0; i < node.b; ++i) items.push_back(copy_target(p_.lists[node.a + i]));
    const ListRef ref = list(items);
    return make(Op::tuple, node.position, ref.begin, ref.size, kNoNode, kNoNode, height_of(items));
  }

  // The arms are a flat list of (test, body), so that a chain of a hundred `elif` is no deep tree.
  NodeId parse_if() {
    const std::uint32_t position = now().begin;
    std::vector<std::uint32_t> arms;
    NodeId otherwise = kNoNode;
    advance();
    while (true) {
      const NodeId test = parse_tuple(false);
      const NodeId body = make_body(parse_statements({"elif", "else", "endif"}));
      arms.insert(arms.end(), {test, body});
      // Which of the three words it is, before it is skipped.
      const bool again = at_word("elif");
      const bool has_else = at_word("else");
      advance();
      if (again) continue;
      if (has_else) otherwise = make_body(parse_body("endif"));
      break;
    }
    const ListRef ref = list(arms);
    return make(Op::branch, position, ref.begin, ref.size, otherwise);
  }
  // A list of statements as a node, for fields that hold a node.
  NodeId make_body(ListRef body) { return make(Op::list, 0, body.begin, body.size); }

  // All values are computed before any target is assigned, so `{% with a = 1, b = a %}` reads the
  // outer `a`.
  NodeId parse_with() {
    const std::uint32_t position = now().begin;
    advance();
    std::vector<NodeId> targets;
    std::vector<NodeId> values;
    while (!at(Token::block_end)) {
      if (!targets.empty()) expect(Token::comma);
      targets.push_back(parse_target(false, {}));
      expect(Token::assign);
      values.push_back(parse_expression());
    }
    BlockNode block;
    block.targets = list(targets);
    block.values = list(values);
    block.body = parse_body("endwith");
    return make_block(Op::with, position, block);
  }

  // `{% generation %}` marks what the assistant has said, for training; `{% autoescape false %}`
  // has no effect. Both only open a scope. With `true`, autoescape would escape HTML, which a
  // prompt must not have.
  NodeId parse_scope(std::string_view word) {
    const std::uint32_t position = now().begin;
    advance();
    if (word == "autoescape") {
      const NodeId on = parse_expression();
      const Node& node = p_.nodes[on];
      const bool is_off = node.op == Op::constant && p_.constants[node.a].is(Tag::boolean) &&
                          !p_.constants[node.a].boolean;
      if (!is_off) {
        fail_at(position, "autoescape is not supported, prompts are not HTML", Errc::unsupported);
      }
    }
    BlockNode block;
    const std::size_t caller = caller_loads_;
    const std::size_t kwargs = kwargs_loads_;
    const std::size_t varargs = varargs_loads_;
    block.body = parse_body(word == "autoescape" ? "endautoescape" : "endgeneration");
    if (word == "generation") {  // the resolver gives them their slots
      if (caller_loads_ != caller) block.caller_slot = 0;
      if (kwargs_loads_ != kwargs) block.kwargs_slot = 0;
      if (varargs_loads_ != varargs) block.varargs_slot = 0;
    }
    const NodeId node = make_block(Op::scope, position, block);
    p_.nodes[node].flags = word == "generation";
    return node;
  }

  // Templates cannot extend others here, so a block is rendered where it stands. Its rules are
  // still jinja2's: a name comes once, and `endblock` may repeat it.
  NodeId parse_block() {
    const std::uint32_t position = now().begin;
    advance();
    BlockNode block;
    const Lexeme name = expect(Token::name);
    block.name = intern(text(name));
    skip_word("scoped");
    block.is_required = skip_word("required");
    if (at(Token::subtract)) fail("block names may not contain hyphens");
    block.body = parse_body("endblock");
    skip_word(text(name));
    if (!block_names_.insert(block.name).second) {
      fail_at(position, "block '" + std::string(text(name)) + "' defined twice");
    }
    const NodeId node = make_block(Op::block, position, block);
    p_.template_blocks.push_back(p_.nodes[node].a);
    return node;
  }

  // `{% print a, b %}` prints what `{{ a }}{{ b }}` does.
  void parse_print(std::vector<NodeId>& body) {
    const std::uint32_t position = now().begin;
    advance();
    bool is_first = true;
    while (!at(Token::block_end)) {
      if (!is_first) expect(Token::comma);
      is_first = false;
      const NodeId value = parse_expression();
      body.push_back(make(Op::print, position, value));
    }
  }

  // A template cannot load other templates: these tags are parsed, and fail when they are run.
  NodeId parse_unloadable(std::string_view word) {
    const std::uint32_t position = now().begin;
    advance();
    const NodeId source = parse_expression();
    // Reads `with context` or `without context` if it is there.
    const auto parse_context = [this] {
      if (at_any({"with", "without"}) && after().token == Token::name &&
          text(after()) == "context") {
        advance();
        advance();
        return true;
      }
      return false;
    };
    if (word == "include") {
      // `ignore missing` has no effect: there is no loader that could miss a template.
      if (at_word("ignore") && text(after()) == "missing") {
        advance();
        advance();
      }
      parse_context();
    } else if (word == "import") {
      expect_word("as");
      expect(Token::name);
      parse_context();
    } else if (word == "from") {
      expect_word("import");
      for (bool is_first = true;; is_first = false) {
        if (!is_first) expect(Token::comma);
        if (parse_context()) break;
        expect(Token::name);
        if (skip_word("as")) expect(Token::name);
        if (parse_context() || !at(Token::comma)) break;
      }
    }
    return make(Op::unloadable, position, source);
  }

  // The parameters of a macro or a call block. Defaults belong to the last parameters, as in
  // Python, so the list of defaults is aligned at its end.
  void parse_signature(MacroNode& macro) {
    std::vector<NodeId> parameters;
    std::vector<NodeId> defaults;
    std::unordered_set<std::string_view> known;
    expect(Token::left_paren);
    while (!at(Token::right_paren)) {
      if (!parameters.empty()) expect(Token::comma);
      const Lexeme name = expect(Token::name);
      check_assignable(name);
      // jinja2 makes a Python function of the macro, which Python refuses.
      if (!known.insert(text(name)).second) {
        throw Fault{Errc::invalid,
                    "SyntaxError: duplicate argument '" + std::string(text(name)) +
                        "' in function definition",
                    name.begin};
      }
      parameters.push_back(make_name(name, false));
      macro.has_explicit_caller |= text(name) == "caller";
      if (skip(Token::assign)) {
        defaults.push_back(parse_expression());
      } else if (!defaults.empty()) {
        fail("non-default argument follows default argument");
      }
    }
    expect(Token::right_paren);
    macro.parameters = list(parameters);
    macro.defaults = list(defaults);
  }
  void check_assignable(const Lexeme& name) const {
    if (is_literal_word(text(name))) fail_at(name.begin, "can't assign to 'name'");
  }
  // Parses the body of a macro or call block and notes which of the special names it reads.
  void parse_macro_body(MacroNode& macro, std::string_view end) {
    const std::size_t caller = caller_loads_;
    const std::size_t kwargs = kwargs_loads_;
    const std::size_t varargs = varargs_loads_;
    macro.body = parse_body(end);
    const auto parameter = [&](std::string_view wanted) {
      for (std::uint32_t i = 0; i < macro.parameters.size; ++i) {
        if (p_.text_of(p_.nodes[p_.lists[macro.parameters.begin + i]].b) == wanted) {
          return static_cast<int>(i);
        }
      }
      return -1;
    };
    // A parameter `caller` needs a default, since the macro may be called without a block.
    if (caller_loads_ != caller) {
      const int at = parameter("caller");
      if (at < 0) {
        macro.caller_slot = 0;  // the resolver gives it its slot
      } else if (static_cast<std::uint32_t>(at) < macro.parameters.size - macro.defaults.size) {
        fail("the special \"caller\" argument must be omitted or be given a default");
      }
    }
    if (kwargs_loads_ != kwargs && parameter("kwargs") < 0) macro.kwargs_slot = 0;
    if (varargs_loads_ != varargs && parameter("varargs") < 0) macro.varargs_slot = 0;
  }
  NodeId make_macro(Op op, std::uint32_t position, const MacroNode& macro, NodeId call) {
    p_.macros.push_back(macro);
    return make(op, position, static_cast<std::uint32_t>(p_.macros.size() - 1), call);
  }

  NodeId parse_macro() {
    const std::uint32_t position = now().begin;
    advance();
    MacroNode macro;
    const Lexeme name = expect(Token::name);
    check_assignable(name);
    macro.target = make_name(name, false);
    macro.name = p_.nodes[macro.target].b;
    parse_signature(macro);
    parse_macro_body(macro, "endmacro");
    return make_macro(Op::macro, position, macro, kNoNode);
  }

  // `{% call(x) f() %}`: the body is a macro without a name, which `f` gets as `caller`.
  NodeId parse_call_block() {
    const std::uint32_t position = now().begin;
    advance();
    MacroNode macro;
    if (at(Token::left_paren)) parse_signature(macro);
    const NodeId call = parse_expression();
    if (p_.nodes[call].op != Op::call) fail_at(position, "expected call");
    parse_macro_body(macro, "endcall");
    return make_macro(Op::call_block, position, macro, call);
  }

  NodeId parse_filter_block() {
    const std::uint32_t position = now().begin;
    advance();
    BlockNode block;
    block.filter = parse_filters(kNoNode, true);
    block.body = parse_body("endfilter");
    return make_block(Op::filter_block, position, block);
  }

  // --- targets

  // What an assignment or a loop writes to: a name, `ns.attribute`, or a tuple of targets. A comma
  // makes a tuple even behind a single name.
  NodeId parse_target(bool with_namespace, Words ends) {
    const std::uint32_t position = now().begin;
    std::vector<NodeId> items;
    bool is_tuple = false;
    while (true) {
      if (!items.empty()) expect(Token::comma);
      if (at_tuple_end(ends)) break;
      items.push_back(parse_target_item(with_namespace));
      if (!at(Token::comma)) break;
      is_tuple = true;
    }
    if (!is_tuple) {
      if (items.empty()) fail("Expected an expression, got '" + describe_now() + "'");
      return items[0];
    }
    return make_sequence(Op::tuple, position, items);
  }
  NodeId parse_target_item(bool with_namespace) {
    if (at(Token::left_paren)) {
      const Deeper deeper(*this);
      const std::uint32_t position = now().begin;
      advance();
      // Parentheses without a comma around one target are only parentheses.
      std::vector<NodeId> items;
      bool is_tuple = false;
      while (true) {
        if (!items.empty()) expect(Token::comma);
        if (at(Token::right_paren)) break;
        items.push_back(parse_target_item(false));
        if (!at(Token::comma)) break;
        is_tuple = true;
      }
      expect(Token::right_paren);
      if (!is_tuple && !items.empty()) return items[0];
      return make_sequence(Op::tuple, position, items);
    }
    if (!at(Token::name)) {
      if (at(Token::string) || at(Token::integer) || at(Token::real))
        fail("can't assign to 'const'");
      if (at(Token::left_bracket)) fail("can't assign to 'list'");
      if (at(Token::left_brace)) fail("can't assign to 'dict'");
      fail("unexpected '" + describe_now() + "'");
    }
    const Lexeme name = now();
    if (is_literal_word(text(name))) fail("can't assign to 'const'");
    advance();
    if (with_namespace && at(Token::dot)) {
      advance();
      // The name of the namespace is read, not written, so it counts as a load.
      const Lexeme attribute = expect(Token::name);
      const NodeId node = make_name(name, true);
      p_.nodes[node].op = Op::ns_ref;
      p_.nodes[node].c = intern(text(attribute));
      return node;
    }
    return make_name(name, false);
  }
  [[nodiscard]] static bool is_literal_word(std::string_view word) {
    return word == "true" || word == "false" || word == "none" || word == "True" ||
           word == "False" || word == "None";
  }
  NodeId make_sequence(Op op, std::uint32_t position, const std::vector<NodeId>& items) {
    const ListRef ref = list(items);
    return make(op, position, ref.begin, ref.size, kNoNode, kNoNode, height_of(items));
  }

  // --- expressions, loosest first

  NodeId parse_expression(bool with_condition = true) {
    const Deeper deeper(*this);
    return with_condition ? parse_condition() : parse_or();
  }

  // `a if b else c` binds weakest and may be chained. Without `else` the value is undefined, which
  // prints as nothing.
  NodeId parse_condition() {
    const std::uint32_t position = now().begin;
    NodeId value = parse_or();
    while (skip_word("if")) {
      const NodeId test = parse_or();
      NodeId otherwise = kNoNode;
      if (skip_word("else")) {
        // `a if b else c if d else e` nests to the right.
        const Deeper deeper(*this);
        otherwise = parse_condition();
      }
      value = make(Op::condition, position, test, value, otherwise, kNoNode,
                   height_of(test, value, otherwise));
    }
    return value;
  }

  NodeId make_binary(Op op, std::uint32_t position, NodeId left, NodeId right) {
    return make(op, position, left, right, kNoNode, kNoNode, height_of(left, right));
  }

  NodeId parse_or() {
    NodeId left = parse_and();
    while (at_word("or")) {
      const std::uint32_t position = now().begin;
      advance();
      left = make_binary(Op::logic_or, position, left, parse_and());
    }
    return left;
  }
  NodeId parse_and() {
    NodeId left = parse_not();
    while (at_word("and")) {
      const std::uint32_t position = now().begin;
      advance();
      left = make_binary(Op::logic_and, position, left, parse_not());
    }
    return left;
  }
  NodeId parse_not() {
    if (!at_word("not")) return parse_compare();
    const Deeper deeper(*this);
    const std::uint32_t position = now().begin;
    advance();
    const NodeId operand = parse_not();
    return make(Op::logic_not, position, operand, kNoNode, kNoNode, kNoNode, height(operand));
  }

  // `1 < x < 3` is one chain, whose middle operand is computed once; so a comparison is a list of
  // operators and operands and not a tree.
  NodeId parse_compare() {
    const std::uint32_t position = now().begin;
    const NodeId first = parse_sum();
    std::vector<std::uint32_t> items;
    unsigned most = height(first);
    while (true) {
      Compare op;
      if (at(Token::eq)) {
        op = Compare::eq;
      } else if (at(Token::ne)) {
        op = Compare::ne;
      } else if (at(Token::lt)) {
        op = Compare::lt;
      } else if (at(Token::le)) {
        op = Compare::le;
      } else if (at(Token::gt)) {
        op = Compare::gt;
      } else if (at(Token::ge)) {
        op = Compare::ge;
      } else if (at_word("in")) {
        op = Compare::in;
      } else if (at_word("not") && after().token == Token::name && text(after()) == "in") {
        op = Compare::not_in;
        advance();
      } else {
        break;
      }
      advance();
      if (items.empty()) items.push_back(first);
      const NodeId operand = parse_sum();
      most = std::max(most, height(operand));
      items.insert(items.end(), {static_cast<std::uint32_t>(op), operand});
    }
    if (items.empty()) return first;
    const ListRef ref = list(items);
    return make(Op::compare, position, ref.begin, ref.size, kNoNode, kNoNode, most);
  }

  NodeId parse_sum() {
    NodeId left = parse_concat();
    while (at(Token::add) || at(Token::subtract)) {
      const Lexeme op = now();
      advance();
      left = make_binary(op.token == Token::add ? Op::add : Op::subtract, op.begin, left,
                         parse_concat());
    }
    return left;
  }
  NodeId parse_concat() {
    const NodeId first = parse_product();
    if (!at(Token::tilde)) return first;
    const std::uint32_t position = now().begin;
    std::vector<NodeId> items{first};
    while (skip(Token::tilde)) items.push_back(parse_product());
    return make_sequence(Op::concat, position, items);
  }
  // jinja2's order of operators is not Python's: `~` binds tighter than `+`, and `**` is
  // left-associative and binds weaker than a sign.
  NodeId parse_product() {
    NodeId left = parse_power();
    while (true) {
      const Lexeme lexeme = now();
      Op op;
      switch (lexeme.token) {
        case Token::multiply:
          op = Op::multiply;
          break;
        case Token::divide:
          op = Op::divide;
          break;
        case Token::floor_divide:
          op = Op::floor_divide;
          break;
        case Token::modulo:
          op = Op::modulo;
          break;
        default:
          return left;
      }
      advance();
      left = make_binary(op, lexeme.begin, left, parse_power());
    }
  }
  NodeId parse_power() {
    NodeId left = parse_unary(true);
    while (at(Token::power)) {
      const std::uint32_t position = now().begin;
      advance();
      left = make_binary(Op::power, position, left, parse_unary(true));
    }
    return left;
  }
  // A filter applies to the signed value: `-1|abs` is `(-1)|abs`. So the operand of a sign is read
  // without filters, and the filters come behind the whole.
  NodeId parse_unary(bool with_filter) {
    NodeId node;
    if (at(Token::subtract) || at(Token::add)) {
      const Deeper deeper(*this);
      const Lexeme sign = now();
      advance();
      const NodeId operand = parse_unary(false);
      node = make(sign.token == Token::add ? Op::positive : Op::negative, sign.begin, operand,
                  kNoNode, kNoNode, kNoNode, height(operand));
    } else {
      node = parse_primary();
    }
    node = parse_postfix(node);
    return with_filter ? parse_filter_expression(node) : node;
  }

  // jinja2 accepts both spellings of the three constants, `true` and `True`.
  NodeId parse_primary() {
    const Lexeme lexeme = now();
    switch (lexeme.token) {
      case Token::name: {
        const std::string_view word = text(lexeme);
        advance();
        if (word == "true" || word == "True") return make_constant(lexeme.begin, make_bool(true));
        if (word == "false" || word == "False")
          return make_constant(lexeme.begin, make_bool(false));
        if (word == "none" || word == "None") return make_constant(lexeme.begin, none_value());
        return make_name(lexeme, true);
      }
      case Token::string:
        return parse_string();
      case Token::integer:
        advance();
        return make_constant(lexeme.begin, read_integer(lexeme));
      case Token::real:
        advance();
        return make_constant(lexeme.begin, make_real(parse_double(without_underscores(lexeme))));
      case Token::left_paren: {
        advance();
        const NodeId node = parse_tuple(true, {}, true);
        expect(Token::right_paren);
        return node;
      }
      case Token::left_bracket:
        return parse_list();
      case Token::left_brace:
        return parse_dict();
      default:
        fail("unexpected '" + describe_now() + "'");
    }
  }

  [[nodiscard]] std::string without_underscores(const Lexeme& lexeme) const {
    std::string digits;
    for (const char c : text(lexeme)) {
      if (c != '_') digits += c;
    }
    return digits;
  }
  // Integers have any size, as in Python, whose limit of 4300 decimal digits also bounds the
  // quadratic conversion.
  Value read_integer(const Lexeme& lexeme) {
    std::string digits = without_underscores(lexeme);
    if (digits.size() > kMaxIntegerDigits) {  // of any base
      fail_at(lexeme.begin, "an integer of more than 4300 digits", Errc::limit_exceeded);
    }
    unsigned base = 10;
    // The lexer has checked the digits behind a prefix.
    if (digits.size() > 2 && digits[0] == '0') {
      const char kind = static_cast<char>(digits[1] | 0x20);
      base = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 10;
      if (base != 10) digits.erase(0, 2);
    }
    std::int64_t small = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), small,
                                              static_cast<int>(base));
    if (error == std::errc() && end == digits.data() + digits.size()) return make_int(small);
    return make_big(p_.memory, BigInt::from_digits(digits, base), false);
  }

  // Strings beside each other are one string, as in Python.
  NodeId parse_string() {
    const std::uint32_t position = now().begin;
    std::string_view whole = unescape(now());
    advance();
    while (at(Token::string)) {
      std::string both(whole);
      both += unescape(now());
      whole = p_.memory.copy(both);
      advance();
    }
    return make_constant(position, make_string(whole));
  }

  // Python's "unicode-escape" of the text between the quotes. A text without escapes is not copied.
  std::string_view unescape(const Lexeme& lexeme) {
    const std::string_view raw = text(lexeme);
    if (raw.find('\\') == std::string_view::npos) return raw;
    std::string out;
    for (std::size_t at = 0; at < raw.size();) {
      if (raw[at] != '\\') {
        out += raw[at++];
        continue;
      }
      at = unescape_one(raw, at + 1, lexeme.begin, out);
    }
    return p_.memory.copy(out);
  }
  // Python's escapes, which jinja2 decodes with `unicode-escape`. `at` is behind the backslash; the
  // result is behind the escape. An escape that Python does not know keeps its backslash.
  std::size_t unescape_one(std::string_view raw, std::size_t at, std::uint32_t position,
                           std::string& out) {
    const char c = raw[at];
    switch (c) {
      case '\n':
        return at + 1;
      case '\\':
      case '\'':
      case '"':
        out += c;
        return at + 1;
      case 'a':
        out += '\a';
        return at + 1;
      case 'b':
        out += '\b';
        return at + 1;
      case 'f':
        out += '\f';
        return at + 1;
      case 'n':
        out += '\n';
        return at + 1;
      case 'r':
        out += '\r';
        return at + 1;
      case 't':
        out += '\t';
        return at + 1;
      case 'v':
        out += '\v';
        return at + 1;
      case 'x':
        return unescape_hex(raw, at, 2, position, out);
      case 'u':
        return unescape_hex(raw, at, 4, position, out);
      case 'U':
        return unescape_hex(raw, at, 8, position, out);
      case 'N':
        return unescape_name(raw, at, position, out);
      default:
        break;
    }
    // Up to three octal digits: `\101` is A.
    if (c >= '0' && c <= '7') {
      char32_t point = 0;
      std::size_t end = at;
      while (end < raw.size() && end < at + 3 && raw[end] >= '0' && raw[end] <= '7') {
        point = point * 8 + static_cast<char32_t>(raw[end++] - '0');
      }
      utf8::append(out, point);
      return end;
    }
    out += '\\';
    if (static_cast<unsigned char>(c) < 0x80) {
      out += c;
      return at + 1;
    }
    // jinja2 first turns the character into an escape; this backslash then quotes the backslash of
    // that escape.
    const char32_t point = unicode::next(raw, at);
    char digits[9];
    const auto [end, error] =
        std::to_chars(digits, digits + 9, static_cast<std::uint32_t>(point), 16);
    static_cast<void>(error);
    const auto count = static_cast<std::size_t>(end - digits);
    const std::size_t width = point < 0x100 ? 2 : point < 0x10000 ? 4 : 8;
    out += width == 2 ? 'x' : width == 4 ? 'u' : 'U';
    out.append(width - count, '0').append(digits, count);
    return at;
  }
  // `\xhh`, `\uhhhh` and `\Uhhhhhhhh` need all their digits. A lone surrogate has no UTF-8, so it
  // is refused instead of being written in a form that later code rejects.
  std::size_t unescape_hex(std::string_view raw, std::size_t at, std::size_t width,
                           std::uint32_t position, std::string& out) {
    std::uint32_t point = 0;
    const std::string_view digits = raw.substr(at + 1, width);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), point, 16);
    if (digits.size() < width || error != std::errc() || end != digits.data() + width) {
      fail_at(position, std::string("truncated \\") + raw[at] + " escape");
    }
    if (point >= 0x110000) fail_at(position, "illegal Unicode character");
    if (point >= 0xD800 && point < 0xE000) {
      fail_at(position, "a lone surrogate is not text", Errc::unsupported);
    }
    utf8::append(out, point);
    return at + 1 + width;
  }
  // `\N{LATIN SMALL LETTER A}`, in any case.
  std::size_t unescape_name(std::string_view raw, std::size_t at, std::uint32_t position,
                            std::string& out) {
    const std::size_t end = raw.find('}', at);
    if (at + 1 >= raw.size() || raw[at + 1] != '{' || end == std::string_view::npos) {
      fail_at(position, "malformed \\N character escape");
    }
    std::string name(raw.substr(at + 2, end - at - 2));
    for (char& c : name) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
    const char32_t point = unicode::by_name(name);
    if (point == 0)
      fail_at(position, "unknown Unicode character name '" + name + "'", Errc::unsupported);
    utf8::append(out, point);
    return end + 1;
  }

  [[nodiscard]] bool at_tuple_end(Words ends) const {
    return at(Token::variable_end) || at(Token::block_end) || at(Token::right_paren) ||
           at_any(ends);
  }
  // An expression, or several with commas, which are a tuple. Only parentheses may be empty. The
  // item before the first comma stands in `first` alone, because most expressions are no tuple.
  NodeId parse_tuple(bool with_condition = true, Words ends = {}, bool has_parentheses = false) {
    const std::uint32_t position = now().begin;
    std::vector<NodeId> items;
    NodeId first = kNoNode;
    bool is_tuple = false;
    while (true) {
      if (first != kNoNode) expect(Token::comma);
      if (at_tuple_end(ends)) break;
      const NodeId item = parse_expression(with_condition);
      if (first == kNoNode) first = item;
      const bool goes_on = at(Token::comma);
      // Items are kept from the first comma on; a comma at the end makes a tuple of one.
      is_tuple |= goes_on;
      if (is_tuple) items.push_back(item);
      if (!goes_on) break;
    }
    if (!is_tuple) {
      if (first != kNoNode) return first;
      if (!has_parentheses) fail("Expected an expression, got '" + describe_now() + "'");
    }
    return make_sequence(Op::tuple, position, items);
  }
  NodeId parse_list() {
    const std::uint32_t position = now().begin;
    advance();
    std::vector<NodeId> items;
    while (!at(Token::right_bracket)) {
      if (!items.empty()) expect(Token::comma);
      if (at(Token::right_bracket)) break;
      items.push_back(parse_expression());
    }
    advance();
    return make_sequence(Op::list, position, items);
  }
  NodeId parse_dict() {
    const std::uint32_t position = now().begin;
    advance();
    std::vector<NodeId> items;
    while (!at(Token::right_brace)) {
      if (!items.empty()) expect(Token::comma);
      if (at(Token::right_brace)) break;
      items.push_back(parse_expression());
      expect(Token::colon);
      items.push_back(parse_expression());
    }
    advance();
    return make_sequence(Op::dict, position, items);
  }

  // What may follow a value: attributes, items and calls, from left to right.
  NodeId parse_postfix(NodeId node) {
    while (true) {
      if (at(Token::dot) || at(Token::left_bracket)) {
        node = parse_subscript(node);
      } else if (at(Token::left_paren)) {
        node = parse_call(node);
      } else {
        return node;
      }
    }
  }
  // A call may come after a filter, too (`x|f(1)(2)` calls the result), as in jinja2.
  NodeId parse_filter_expression(NodeId node) {
    while (true) {
      if (at(Token::pipe)) {
        node = parse_filters(node, false);
      } else if (at_word("is")) {
        node = parse_test(node);
      } else if (at(Token::left_paren)) {
        node = parse_call(node);
      } else {
        return node;
      }
    }
  }

  // `a.b` and `a["b"]` try attribute and item in different orders, so they are different nodes;
  // `a.0` is an item. Several indices are one tuple, and one slice is a node of its own,
  // for which no slice object is made.
  NodeId parse_subscript(NodeId object) {
    const Lexeme open = now();
    advance();
    if (open.token == Token::dot) {
      const Lexeme attribute = now();
      advance();
      if (attribute.token == Token::name) {
        const std::string_view name = text(attribute);
        return make(Op::get_attr, attribute.begin, object, intern(name), method_of_name(name),
                    kNoNode, height(object));
      }
      if (attribute.token != Token::integer) fail_at(attribute.begin, "expected name or number");
      const NodeId index = make_constant(attribute.begin, read_integer(attribute));
      return make_binary(Op::get_item, open.begin, object, index);
    }
    std::vector<NodeId> items;
    while (!at(Token::right_bracket)) {
      if (!items.empty()) expect(Token::comma);
      items.push_back(parse_index());
    }
    // An empty index is a tuple of none.
    advance();
    if (items.size() != 1) {
      return make_binary(Op::get_item, open.begin, object,
                         make_sequence(Op::tuple, open.begin, items));
    }
    const Node index = p_.nodes[items[0]];
    if (index.op == Op::slice) {
      const NodeId node = make(Op::get_slice, open.begin, object, index.b, index.c, index.d,
                               height_of(object, items[0]));
      p_.nodes[node].flags = is_constant(object) && is_constant(index.b) && is_constant(index.c) &&
                             is_constant(index.d);
      return node;
    }
    return make_binary(Op::get_item, open.begin, object, items[0]);
  }
  // True if jinja2 computes the expression when it compiles. There, a slice of a value that cannot
  // be sliced gives undefined.
  [[nodiscard]] bool is_constant(NodeId id) const {
    if (id == kNoNode) return true;
    const Node& node = p_.nodes[id];
    if (node.op == Op::constant) return true;
    if (node.op == Op::negative || node.op == Op::positive) return is_constant(node.a);
    if (node.op != Op::list && node.op != Op::tuple && node.op != Op::dict) return false;
    for (std::uint32_t i = 0; i < node.b; ++i) {
      if (!is_constant(p_.lists[node.a + i])) return false;
    }
    return true;
  }
  // `begin:end:step`, each of which may be missing, or one expression.
  NodeId parse_index() {
    const std::uint32_t position = now().begin;
    NodeId parts[3] = {kNoNode, kNoNode, kNoNode};
    if (!at(Token::colon)) {
      parts[0] = parse_expression();
      if (!at(Token::colon)) return parts[0];
    }
    advance();
    if (!at(Token::colon) && !at(Token::right_bracket) && !at(Token::comma)) {
      parts[1] = parse_expression();
    }
    if (skip(Token::colon) && !at(Token::right_bracket) && !at(Token::comma)) {
      parts[2] = parse_expression();
    }
    return make(Op::slice, position, kNoNode, parts[0], parts[1], parts[2],
                height_of(parts[0], parts[1], parts[2]));
  }

  // Parses the arguments in parentheses. `most` becomes the height of the highest, if that is more.
  std::uint32_t parse_arguments(unsigned& most) {
    const std::uint32_t position = now().begin;
    expect(Token::left_paren);
    Arguments arguments;
    std::vector<NodeId> positional;
    std::vector<std::uint32_t> keywords;
    std::unordered_set<std::uint32_t> known;  // keywords
    // Positional arguments stand first and `**` last, as in jinja2's parser.
    const auto ensure = [&](bool is_right) {
      if (!is_right) fail_at(position, "invalid syntax for function call expression");
    };
    bool is_first = true;
    while (!at(Token::right_paren)) {
      if (!is_first) {
        expect(Token::comma);
        if (at(Token::right_paren)) break;
      }
      is_first = false;
      NodeId value;
      if (skip(Token::multiply)) {
        ensure(arguments.star == kNoNode && arguments.double_star == kNoNode);
        value = arguments.star = parse_expression();
      } else if (skip(Token::power)) {
        ensure(arguments.double_star == kNoNode);
        value = arguments.double_star = parse_expression();
      } else if (at(Token::name) && after().token == Token::assign) {
        ensure(arguments.double_star == kNoNode);
        const std::uint32_t key = intern(text(now()));
        if (!known.insert(key).second) {
          fail("keyword argument repeated: " + std::string(text(now())));
        }
        advance();
        advance();
        value = parse_expression();
        keywords.insert(keywords.end(), {key, value});
      } else {
        ensure(arguments.star == kNoNode && arguments.double_star == kNoNode && keywords.empty());
        value = parse_expression();
        positional.push_back(value);
      }
      most = std::max(most, height(value));
    }
    advance();
    arguments.positional = list(positional);
    arguments.keywords = list(keywords);
    p_.arguments.push_back(arguments);
    return static_cast<std::uint32_t>(p_.arguments.size() - 1);
  }
  // One empty entry for all filters and tests without parentheses.
  std::uint32_t no_arguments() {
    if (no_arguments_ == kNoNode) {
      p_.arguments.emplace_back();
      no_arguments_ = static_cast<std::uint32_t>(p_.arguments.size() - 1);
    }
    return no_arguments_;
  }

  NodeId parse_call(NodeId callee) {
    const std::uint32_t position = now().begin;
    unsigned most = height(callee);
    const std::uint32_t arguments = parse_arguments(most);
    return make(Op::call, position, callee, arguments, kNoNode, kNoNode, most);
  }

  // jinja2 allows dots in the names of filters and tests.
  std::string_view parse_dotted_name(std::uint32_t& position) {
    const Lexeme first = expect(Token::name);
    position = first.begin;
    if (!at(Token::dot)) return text(first);
    std::string name(text(first));
    while (skip(Token::dot)) name.append(".").append(text(expect(Token::name)));
    return p_.memory.copy(name);
  }
  // `starts_inline`: the first filter has no `|` before it (`{% filter upper %}`). The filter is
  // looked up once, here.
  NodeId parse_filters(NodeId value, bool starts_inline) {
    while (at(Token::pipe) || starts_inline) {
      if (!starts_inline) advance();
      starts_inline = false;
      std::uint32_t position = 0;
      const std::string_view name = parse_dotted_name(position);
      unsigned most = height(value);
      const std::uint32_t arguments =
          at(Token::left_paren) ? parse_arguments(most) : no_arguments();
      value = make(Op::filter, position, value, arguments, filter_of_name(name, p_.superset),
                   intern(name), most);
    }
    return value;
  }
  // A test may have one argument without parentheses: `x is divisibleby 3`. `else`, `or` and `and`
  // go on with the expression instead. Tests are not chained.
  NodeId parse_test(NodeId value) {
    advance();
    const bool is_negated = skip_word("not");
    std::uint32_t position = 0;
    const std::string_view name = parse_dotted_name(position);
    unsigned most = height(value);
    std::uint32_t arguments;
    if (at(Token::left_paren)) {
      arguments = parse_arguments(most);
    } else if ((at(Token::name) && !at_any({"else", "or", "and"})) || at(Token::string) ||
               at(Token::integer) || at(Token::real) || at(Token::left_bracket) ||
               at(Token::left_brace)) {
      // `x is y is z` would read `is` as the argument of y.
      if (at_word("is")) fail("You cannot chain multiple tests with is");
      const Deeper deeper(*this);
      const NodeId argument = parse_postfix(parse_primary());
      most = std::max(most, height(argument));
      Arguments single;
      single.positional = list({argument});
      p_.arguments.push_back(single);
      arguments = static_cast<std::uint32_t>(p_.arguments.size() - 1);
    } else {
      arguments = no_arguments();
    }
    NodeId node =
        make(Op::test, position, value, arguments, test_of_name(name), intern(name), most);
    if (is_negated) {
      node = make(Op::logic_not, position, node, kNoNode, kNoNode, kNoNode, height(node));
    }
    return node;
  }

  Program& p_;
  std::size_t max_depth_;
  std::size_t depth_ = 0;  // of the parser's recursion
  std::vector<Lexeme> lexemes_;
  std::size_t at_ = 0;                       // into lexemes_
  std::vector<std::string_view> open_tags_;  // the statements being read, for messages
  std::vector<std::uint32_t> interned_;      // open addressing, a power of two: constant + 1
  std::size_t interned_count_ = 0;
  std::unordered_set<std::uint32_t> block_names_;  // constants
  std::uint32_t no_arguments_ = kNoNode;           // kNoNode: not made yet
  // How often each special name has been read so far; a body compares before and after.
  std::size_t loop_loads_ = 0, caller_loads_ = 0, kwargs_loads_ = 0, varargs_loads_ = 0;
};

}  // namespace

void parse(Program& program, std::string_view source, const CompileOptions& options) {
  program.name = options.name;
  if (source.size() > options.max_source_bytes) {
    throw Fault{Errc::limit_exceeded, "the template is longer than " +
                                          std::to_string(options.max_source_bytes) + " bytes"};
  }
  // Positions in errors are positions in this text, whose line ends are all `\n`.
  program.source = normalize_newlines(source);
  program.superset = options.superset;
  const std::size_t valid = utf8::valid_prefix(program.source);
  if (valid != program.source.size()) {
    throw Fault{Errc::invalid, "the template is not UTF-8", static_cast<std::uint32_t>(valid)};
  }
  Parser(program, options).run();
}

LineColumn locate(std::string_view source, std::size_t position) {
  const std::string_view before = source.substr(0, position);
  LineColumn at{1, 1};
  std::size_t line = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i] == '\n') {
      ++at.line;
      line = i + 1;
    }
  }
  at.column += unicode::length(before.substr(line));
  return at;
}

}  // namespace tenon::jinja
