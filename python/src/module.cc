#include "common.h"

NB_MODULE(_tenon, m) {
  // Objects that a program still has when it ends are not leaks.
  nanobind::set_leak_warnings(false);
  m.attr("__version__") = tenon_version();
  tenon::python::bind_vocab(m);
  tenon::python::bind_events(m);
  tenon::python::bind_format(m);
  tenon::python::bind_grammar(m);
  tenon::python::bind_template(m);
  tenon::python::bind_service(m);
  tenon::python::bind_conversation(m);
}
