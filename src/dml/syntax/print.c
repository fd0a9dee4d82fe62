/* A tree as text: each operation in parentheses, one statement a line. */
#include "dml/syntax/syntax.h"

#include <string.h>

static void print_list(const gy_dml_node *first, gy_text *text)
{
    for (const gy_dml_node *node = first; node != NULL; node = node->next) {
        gy_text_add(text, "%s", node == first ? "" : ", ");
        gy_dml_print_node(node, text);
    }
}

static void print_block(const gy_dml_node *first, gy_text *text)
{
    gy_text_add(text, "{\n");
    for (const gy_dml_node *node = first; node != NULL; node = node->next) {
        gy_dml_print_node(node, text);
        gy_text_add(text, ";\n");
    }
    gy_text_add(text, "}");
}

static void print_string(const char *value, gy_text *text)
{
    static const char from[] = "\b\t\n\f\r\"\\", to[] = "btnfr\"\\";
    gy_text_add(text, "\"");
    for (; *value != '\0'; value++) {
        const char *at = strchr(from, *value);
        if (at != NULL) {
            gy_text_add(text, "\\%c", to[at - from]);
        } else {
            gy_text_add_bytes(text, value, 1);
        }
    }
    gy_text_add(text, "\"");
}

/* A literal that is read as a double with the same bits. */
static void print_double(double value, gy_text *text)
{
    char shown[40];
    gy_print(shown, sizeof(shown), "%.17g", value);
    gy_text_add(text, "%s%s", value > 1e308 && value * 0 != 0 ? "1e999" : shown,
                strpbrk(shown, ".eni") == NULL ? "." : "");
}

static void print_index(const gy_dml_node *node, gy_text *text)
{
    gy_text_add(text, "%s[", node->text);
    if (node->a != NULL) {
        gy_dml_print_node(node->a, text);
    }
    gy_text_add(text, "%s", node->form == GY_DML_INDEX_TWO ? ", " : "");
    if (node->b != NULL) {
        gy_dml_print_node(node->b, text);
    }
    gy_text_add(text, "]");
}

static void print_pair(const gy_dml_node *node, const char *between, gy_text *text)
{
    gy_dml_print_node(node->a, text);
    if (node->b != NULL) {
        gy_text_add(text, "%s", between);
        gy_dml_print_node(node->b, text);
    }
}

static void print_binary(const gy_dml_node *node, gy_text *text)
{
    gy_text_add(text, "(");
    if (node->kind == GY_DML_BINARY) {
        gy_dml_print_node(node->a, text);
        gy_text_add(text, " %s ", gy_dml_sign_text((gy_dml_sign)node->sign));
        gy_dml_print_node(node->b, text);
    } else {
        gy_text_add(text, "%s", gy_dml_sign_text((gy_dml_sign)node->sign));
        gy_dml_print_node(node->a, text);
    }
    gy_text_add(text, ")");
}

static void print_for(const gy_dml_node *node, gy_text *text)
{
    gy_text_add(text, "%s (%s in ", node->kind == GY_DML_FOR ? "for" : "parfor", node->text);
    if (node->c != NULL) {
        gy_text_add(text, "seq(");
        print_pair(node, ", ", text);
        gy_text_add(text, ", ");
        gy_dml_print_node(node->c, text);
        gy_text_add(text, ")");
    } else {
        print_pair(node, ":", text);
    }
    for (const gy_dml_node *given = node->e; given != NULL; given = given->next) {
        gy_text_add(text, ", ");
        gy_dml_print_node(given, text);
    }
    gy_text_add(text, ") ");
    print_block(node->d, text);
}

static void print_parameter(const gy_dml_node *node, gy_text *text)
{
    static const char *const data[] = {"", "matrix", "frame", "list", "tensor"};
    static const char *const elements[] = {"unknown", "int", "double", "boolean", "string"};
    if (node->data == GY_DML_DATA_SCALAR) {
        gy_text_add(text, "%s %s", elements[node->element], node->text);
    } else {
        gy_text_add(text, "%s[%s] %s", data[node->data], elements[node->element], node->text);
    }
    if (node->a != NULL) {
        gy_text_add(text, " = ");
        gy_dml_print_node(node->a, text);
    }
}

static void print_function(const gy_dml_node *node, gy_text *text)
{
    gy_text_add(text, "%s = %s(", node->text,
                node->is_external ? "externalFunction" : "function");
    print_list(node->a, text);
    gy_text_add(text, ") return (");
    print_list(node->b, text);
    gy_text_add(text, ") ");
    if (node->is_external) {
        gy_text_add(text, "implemented in ()");
    } else {
        print_block(node->c, text);
    }
}

static void print_if(const gy_dml_node *node, gy_text *text)
{
    gy_text_add(text, "%s (", node->kind == GY_DML_IF ? "if" : "while");
    gy_dml_print_node(node->a, text);
    gy_text_add(text, ") ");
    print_block(node->b, text);
    if (node->c != NULL) {
        gy_text_add(text, " else ");
        print_block(node->c, text);
    }
}

static void print_statement(const gy_dml_node *node, gy_text *text)
{
    switch (node->kind) {
    case GY_DML_SET:
        print_pair(node, " = ", text);
        break;
    case GY_DML_ADD:
        print_pair(node, " += ", text);
        break;
    case GY_DML_RUN:
        gy_dml_print_node(node->a, text);
        break;
    case GY_DML_IF:
    case GY_DML_WHILE:
        print_if(node, text);
        break;
    case GY_DML_FOR:
    case GY_DML_PARFOR:
        print_for(node, text);
        break;
    case GY_DML_IMPORT:
    case GY_DML_SETWD:
        gy_text_add(text, "%s", node->kind == GY_DML_IMPORT ? "source(" : "setwd(");
        print_string(node->text, text);
        gy_text_add(text, ")%s%s", node->kind == GY_DML_IMPORT ? " as " : "",
                    node->kind == GY_DML_IMPORT ? node->other : "");
        break;
    case GY_DML_FUNCTION:
        print_function(node, text);
        break;
    default:
        print_parameter(node, text);
        break;
    }
}

void gy_dml_print_node(const gy_dml_node *node, gy_text *text)
{
    switch (node->kind) {
    case GY_DML_INTEGER:
        gy_text_add(text, "%lld", (long long)node->whole);
        break;
    case GY_DML_DOUBLE:
        print_double(node->real, text);
        break;
    case GY_DML_BOOLEAN:
        gy_text_add(text, "%s", node->whole != 0 ? "TRUE" : "FALSE");
        break;
    case GY_DML_STRING:
        print_string(node->text, text);
        break;
    case GY_DML_NAME:
        gy_text_add(text, "%s", node->text);
        break;
    case GY_DML_ARGUMENT:
        gy_text_add(text, "$%s", node->text);
        break;
    case GY_DML_INDEX:
        print_index(node, text);
        break;
    case GY_DML_RANGE:
        print_pair(node, ":", text);
        break;
    case GY_DML_UNARY:
    case GY_DML_BINARY:
        print_binary(node, text);
        break;
    case GY_DML_CALL:
        gy_text_add(text, "%s(", node->text);
        print_list(node->a, text);
        gy_text_add(text, ")");
        break;
    case GY_DML_GIVEN:
        if (node->text != NULL) {
            gy_text_add(text, "%s = ", node->text);
        }
        gy_dml_print_node(node->a, text);
        break;
    case GY_DML_SEVERAL:
        gy_text_add(text, "[");
        print_list(node->a, text);
        gy_text_add(text, "]");
        break;
    default:
        print_statement(node, text);
        break;
    }
}

void gy_dml_print(const gy_dml_program *program, gy_text *text)
{
    for (const gy_dml_node *node = program->functions; node != NULL; node = node->next) {
        gy_dml_print_node(node, text);
        gy_text_add(text, "\n");
    }
    for (const gy_dml_node *node = program->statements; node != NULL; node = node->next) {
        gy_dml_print_node(node, text);
        gy_text_add(text, ";\n");
    }
}
