"""A tool: an expression on stdin, as {"expression": "..."}, its value on stdout. Nothing is evaluated but arithmetic."""

import ast
import json
import math
import operator
import sys

OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}
CONSTANTS = {"pi": math.pi, "e": math.e}
FUNCTIONS = {
    "abs": abs,
    "round": round,
    "min": min,
    "max": max,
    **{
        name: getattr(math, name)
        for name in ("sqrt", "log", "log10", "exp", "sin", "cos", "tan", "floor", "ceil")
    },
}


def value(node):
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value
    if isinstance(node, ast.Name) and node.id in CONSTANTS:
        return CONSTANTS[node.id]
    if isinstance(node, ast.UnaryOp) and type(node.op) in OPERATORS:
        return OPERATORS[type(node.op)](value(node.operand))
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        left, right = value(node.left), value(node.right)
        if isinstance(node.op, ast.Pow) and abs(right) * math.log2(abs(left) + 2) > 10_000:
            raise ValueError("the power is too large")
        return OPERATORS[type(node.op)](left, right)
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in FUNCTIONS
        and not node.keywords
    ):
        return FUNCTIONS[node.func.id](*map(value, node.args))
    raise ValueError(f"{ast.unparse(node)!r} is no arithmetic")


try:
    print(value(ast.parse(json.load(sys.stdin)["expression"].strip(), mode="eval").body))
except (ArithmeticError, SyntaxError, TypeError, ValueError) as error:
    sys.exit(f"{type(error).__name__}: {error}")
