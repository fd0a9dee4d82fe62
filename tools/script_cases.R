#!/usr/bin/env Rscript
# R's values of the cases of scripts' builtins: each case of cases_test.def that is R, once scripts'
# few other forms are defined below, is evaluated and its value held against the committed one.
#
# usage: tools/script_cases.R [src/dml/builtins/cases_test.def]
#
# Prints what differs, and how many agree. What R has no function for (frames, layers, files), or
# what scripts refuse, is counted as not comparable. Where SystemDS departs from R on purpose
# (halves are rounded up, the last of equal extremes) the committed value is SystemDS's.
path <- c(commandArgs(TRUE), "src/dml/builtins/cases_test.def")[1]
base <- baseenv()
given <- new.env(parent = globalenv())
with(given, {
  numbers <- function(text) scan(text = gsub(",", " ", text), quiet = TRUE)
  matrix <- function(data, rows = NULL, cols = NULL, byrow = TRUE) {
    cells <- if (is.character(data)) numbers(data) else as.vector(t(as.matrix(data)))
    if (is.null(rows) && is.null(cols)) rows <- length(cells)
    if (is.null(rows)) rows <- length(cells) / cols
    if (is.null(cols)) cols <- length(cells) / rows
    base::matrix(as.double(cells), rows, cols, byrow = byrow)
  }
  as.scalar <- castAsScalar <- function(x) as.vector(x)[1]
  seq <- function(from, to, incr = if (from <= to) 1 else -1) base::matrix(base::seq(from, to, incr), ncol = 1)
  across <- function(f) function(X) base::matrix(base::apply(X, 1, f), ncol = 1)
  down <- function(f) function(X) base::matrix(base::apply(X, 2, f), nrow = 1)
  all_cells <- function(f) function(X) f(as.vector(X))
  rowSums <- across(base::sum); rowMeans <- across(base::mean); rowMaxs <- across(base::max)
  rowMins <- across(base::min); rowProds <- across(base::prod); rowSds <- across(stats::sd); rowVars <- across(stats::var)
  colSums <- down(base::sum); colMeans <- down(base::mean); colMaxs <- down(base::max)
  colMins <- down(base::min); colProds <- down(base::prod); colSds <- down(stats::sd); colVars <- down(stats::var)
  sd <- all_cells(stats::sd); var <- all_cells(stats::var); avg <- all_cells(base::mean)
  columns <- function(f) function(X) { X[] <- base::apply(X, 2, f); X }
  cumsum <- columns(base::cumsum); cumprod <- columns(base::cumprod)
  cummin <- columns(base::cummin); cummax <- columns(base::cummax)
  inv <- inverse <- base::solve
  trace <- function(X) base::sum(base::diag(X))
  quantile <- function(X, p) {
    q <- stats::quantile(as.vector(X), as.vector(p), type = 7, names = FALSE)
    if (is.matrix(p)) base::matrix(q, ncol = 1) else q
  }
  median <- all_cells(stats::median)
  cov <- function(X, Y) stats::cov(as.vector(X), as.vector(Y))
  order <- function(target, by = 1, decreasing = FALSE, index.return = FALSE) {
    o <- do.call(base::order, c(lapply(as.vector(by), function(k) target[, k]), decreasing = decreasing))
    if (index.return) base::matrix(o, ncol = 1) else target[o, , drop = FALSE]
  }
  table <- function(A, B) {
    out <- base::matrix(0, base::max(A), base::max(B))
    for (i in seq_along(A)) out[A[i], B[i]] <- out[A[i], B[i]] + 1
    out
  }
  outer <- function(u, v, op = "*") base::outer(as.vector(u), as.vector(v), op)
  cholesky <- function(X) t(base::chol(X))
  ceil <- base::ceiling
  rev <- function(X) X[nrow(X):1, , drop = FALSE]
  removeEmpty <- function(target, margin) {
    if (margin == "rows") target[base::rowSums(target != 0) > 0, , drop = FALSE]
    else target[, base::colSums(target != 0) > 0, drop = FALSE]
  }
  pnorm <- function(target, mean = 0, sd = 1, lower.tail = TRUE) stats::pnorm(target, mean, sd, lower.tail)
  qnorm <- function(target, mean = 0, sd = 1, lower.tail = TRUE) stats::qnorm(target, mean, sd, lower.tail)
  pt <- function(target, df, lower.tail = TRUE) stats::pt(target, df, lower.tail = lower.tail)
  qt <- function(target, df, lower.tail = TRUE) stats::qt(target, df, lower.tail = lower.tail)
  pchisq <- function(target, df, lower.tail = TRUE) stats::pchisq(target, df, lower.tail = lower.tail)
  qchisq <- function(target, df, lower.tail = TRUE) stats::qchisq(target, df, lower.tail = lower.tail)
  pexp <- function(target, rate = 1, lower.tail = TRUE) stats::pexp(target, rate, lower.tail)
  qexp <- function(target, rate = 1, lower.tail = TRUE) stats::qexp(target, rate, lower.tail)
  pf <- function(target, df1, df2, lower.tail = TRUE) stats::pf(target, df1, df2, lower.tail = lower.tail)
  qf <- function(target, df1, df2, lower.tail = TRUE) stats::qf(target, df1, df2, lower.tail = lower.tail)
})
# As cases_test.c shows a value.
show_real <- function(x) ifelse(is.nan(x), "nan", ifelse(is.infinite(x), ifelse(x > 0, "inf", "-inf"), sprintf("%.10g", x + 0)))
show <- function(x) {
  if (is.matrix(x)) {
    x <- x + 0
    rows <- if (length(x) == 0) "" else apply(x, 1, function(row) paste(show_real(row), collapse = " "))
    return(paste0("[", paste(rows, collapse = "; "), "]", if (length(x) == 0) paste0(nrow(x), "x", ncol(x))))
  }
  if (is.logical(x)) return(if (x) "TRUE" else "FALSE")
  if (is.numeric(x) && length(x) == 1) return(show_real(x))
  stop("no such value")
}
value_of <- function(text) {
  env <- new.env(parent = given)
  setTimeLimit(elapsed = 5, transient = TRUE)
  value <- eval(parse(text = text), env)
  show(if (grepl("x = ", text, fixed = TRUE)) env$x else value)
}
lines <- grep("^GY_X", readLines(path), value = TRUE)
agree <- differ <- other <- 0
for (line in lines) {
  part <- regmatches(line, regexec('^GY_X\\("((?:[^"\\\\]|\\\\.)*)",\\s*"((?:[^"\\\\]|\\\\.)*)"\\)', line, perl = TRUE))[[1]]
  got <- if (length(part) != 3 || startsWith(part[3], "!")) NULL else
    tryCatch(suppressWarnings(value_of(gsub('\\"', '"', part[2], fixed = TRUE))), error = function(e) NULL)
  if (is.null(got)) {
    other <- other + 1
  } else if (got == part[3]) {
    agree <- agree + 1
  } else {
    differ <- differ + 1
    cat(part[2], ": R gives ", got, ", the case says ", part[3], "\n", sep = "")
  }
}
cat(agree, "agree,", differ, "differ,", other, "are not comparable\n")
