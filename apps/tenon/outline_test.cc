#include "outline.h"

#include <string>

#include <CLI/CLI.hpp>
#include <gtest/gtest.h>

namespace tenon::app {
namespace {

// A command line with one of everything; its texts have characters with a meaning in shells or
// roff.
OutlinedCommand sample() {
  CLI::App app("It's [all]: here", "demo");
  app.set_version_flag("--version", "1");
  CLI::App* serve = app.add_subcommand("serve", "Serves");
  static std::string text;
  static bool flag = false;
  serve->add_option("-p,--path", text, ".hidden\nor 'not'")->envname("DEMO_PATH");
  serve->add_flag("--loud", flag, "Loudly");
  serve->add_option("file", text, "What");
  serve->footer("Example:\n  demo serve --path a\\b");
  CLI::App* box = app.add_subcommand("box", "Has two");
  CLI::App* open = box->add_subcommand("open", "Opens");
  open->add_flag("--wide", flag, "Widely");
  open->add_option("lid", text, "Which");
  app.add_subcommand("inner", "Nobody's business")->group("");
  return outline_of(app);
}

TEST(Outline, HasWhatTheParserHas) {
  const OutlinedCommand demo = sample();
  EXPECT_EQ(demo.name, "demo");
  ASSERT_EQ(demo.commands.size(), 2U) << "one is hidden";
  const OutlinedCommand& serve = demo.commands[0];
  ASSERT_EQ(serve.options.size(), 4U) << "help among them";
  EXPECT_EQ(serve.options[1].names, (std::vector<std::string>{"-p", "--path"}));
  EXPECT_EQ(serve.options[1].value, "TEXT");
  EXPECT_EQ(serve.options[1].variable, "DEMO_PATH");
  EXPECT_EQ(serve.options[2].value, "") << "a flag";
  EXPECT_TRUE(serve.options[3].names.empty());
  EXPECT_EQ(serve.options[3].value, "file");
  EXPECT_EQ(demo.commands[1].commands[0].name, "open");
}

TEST(Outline, ScriptsHaveEveryWord) {
  struct Row {
    const char* shell;
    std::vector<std::string> holds;
  };
  const Row rows[] = {
      {"bash",
       {"serve) words='-h --help -p --path --loud'", "box) words='open -h --help --wide'",
        "serve|box"}},
      {"zsh",
       {"'box:Has two'", "'*--path[.hidden or '\\''not'\\'']:TEXT:_files'",
        "'*--wide[Widely]' '1:command:(open)' '*:file:_files' ;;"}},
      {"fish",
       {"-l loud -d 'Loudly'", "-s p -l path -r -d '.hidden or '\\''not'\\'''",
        "-a open -d 'Opens'", "seen_subcommand_from box' -l wide -d 'Widely'"}},
  };
  for (const Row& row : rows) {
    const std::string script = completion_script(sample(), row.shell);
    for (const std::string& part : row.holds) {
      EXPECT_NE(script.find(part), std::string::npos) << row.shell << ": " << part << "\n"
                                                      << script;
    }
    EXPECT_EQ(script.find("inner"), std::string::npos) << row.shell;
  }
  EXPECT_EQ(completion_script(sample(), "csh"), "");
}

TEST(Outline, PagesEscapeWhatRoffWouldRead) {
  const OutlinedCommand demo = sample();
  const std::string page = manual_page(demo.commands[0], "demo", "1.0");
  for (const std::string part :
       {".TH DEMO\\-SERVE 1 \"\" \"tenon 1.0\"\n",
        "\\fB\\-p, \\-\\-path\\fR \\fITEXT\\fR\n\\&.hidden\nor 'not'\n", "a\\eb",
        "\\fBDEMO_PATH\\fR", "[\\fIfile\\fR]", "\\fBdemo\\fR(1)"}) {
    EXPECT_NE(page.find(part), std::string::npos) << part << "\n" << page;
  }
  EXPECT_NE(manual_page(demo, "", "1.0").find("\\fBdemo\\-box\\fR(1)"), std::string::npos);
}

}  // namespace
}  // namespace tenon::app
