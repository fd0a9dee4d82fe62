# Makes library_test.def: what functions of share/gyre/dml must give, by R's own functions where it
# has them, else by the defining formula or by minimising the defining objective.
#   Rscript src/dml/library_reference.R >src/dml/library_test.def
s <- 1:40
X <- sin(outer(s, c(1.3, 2.1, 0.7)))
w <- c(1, -2, 0.5)
e <- cos(1.7 * s)
y <- X %*% w + 3 + e
yb <- (X %*% w + 1.5 * e > 0) * 1
yc <- round(exp(X %*% w / 2 + 1 + e / 3))
yg <- exp(X %*% w / 2) * (1.3 + e)
cl <- 1 + (X[, 1] + 0.8 * e > 0.3) + (X[, 2] + 0.8 * cos(2.3 * s) > 0.4)
pairs <- cbind(yc, 5)

row <- function(text, tolerance, values) {
    cat('GY_X("', gsub('"', '\\\\"', text), '", ', tolerance, ', "',
        paste(format(c(t(values)), digits = 15, trim = TRUE), collapse = " "), '")\n', sep = "")
}
ridge <- function(X, y, icpt, reg) { # penalised least squares; 2: in scaled columns
    d <- ncol(X)
    m <- if (icpt == 2) colMeans(X) else rep(0, d)
    v <- if (icpt == 2) apply(X, 2, sd) else rep(1, d)
    Z <- sweep(sweep(X, 2, m), 2, v, "/")
    p <- rep(reg, d)
    if (icpt > 0) { Z <- cbind(Z, 1); p <- c(p, 0) }
    b <- solve(t(Z) %*% Z + diag(p), t(Z) %*% y)
    if (icpt == 2) { b[1:d] <- b[1:d] / v; b[d + 1] <- b[d + 1] - sum(m * b[1:d]) }
    b
}
best <- function(f, g, n) { # a minimum to all digits: BFGS, then Newton by differences of g
    b <- optim(rep(0, n), f, g, method = "BFGS", control = list(reltol = 1e-15, maxit = 10000))$par
    for (i in 1:5) {
        H <- sapply(1:n, function(k) { h <- 1e-5; d <- replace(rep(0, n), k, h)
                                       (g(b + d) - g(b - d)) / (2 * h) })
        b <- b - solve(H, g(b))
    }
    b
}

cat("/* Made by library_reference.R: GY_X(what sets x, tolerance, x by rows), GY_SAID(what prints, its\n * values). */\n")
for (icpt in 0:2) {
    for (f in c("lm", "lmDS", "lmCG")) {
        row(sprintf("x = %s(X=X, y=y, icpt=%d, reg=0.5, verbose=FALSE)", f, icpt),
            if (f == "lmCG") "1e-6" else "1e-10", ridge(X, y, icpt, 0.5))
    }
}
b <- ridge(X, y, 1, 0)
row("x = lmPredict(X=X, B=lmDS(X=X, y=y, icpt=1, reg=0, verbose=FALSE), icpt=1)", "1e-9",
    cbind(X, 1) %*% b)
row("x = lmPredict(X=X, B=matrix(\"1 -2 0.5\", 3, 1))", "1e-12", X %*% w)

tight <- list(epsilon = 1e-14, maxit = 200)
fits <- list(
    list("yb", "dfam=2", binomial()), list("yb", "dfam=2, link=3", binomial("probit")),
    list("yb", "dfam=2, link=4", binomial("cloglog")),
    list("yb", "dfam=2, link=5", binomial("cauchit")),
    list("yc", "dfam=1, vpow=1", poisson()), list("yc", "dfam=1, vpow=1, link=1, lpow=0.5", poisson("sqrt")),
    list("y", "dfam=1", gaussian()), list("yg", "dfam=1, vpow=2, link=1, lpow=0", Gamma("log")),
    list("yg", "dfam=1, vpow=3, link=1, lpow=0", inverse.gaussian("log")))
for (one in fits) {
    fit <- glm(get(one[[1]]) ~ X, family = one[[3]], control = tight)
    row(sprintf("x = glm(X=X, Y=%s, %s, icpt=1, tol=1e-12, verbose=FALSE)", one[[1]], one[[2]]),
        "1e-6", c(coef(fit)[-1], coef(fit)[1]))
}
fit <- glm(pairs ~ X, family = binomial(), control = tight)
row("x = glm(X=X, Y=cbind(yc, matrix(5, 40, 1)), dfam=2, icpt=1, tol=1e-12, verbose=FALSE)", "1e-6",
    c(coef(fit)[-1], coef(fit)[1]))
fit <- glm(yc ~ X - 1, family = poisson(), control = tight)
row("x = glm(X=X, Y=yc, dfam=1, vpow=1, icpt=0, tol=1e-12, verbose=FALSE)", "1e-6", coef(fit))
Z <- scale(X)
fit <- glm(yb ~ Z, family = binomial(), control = tight)
raw <- coef(fit)[-1] / attr(Z, "scaled:scale")
row("x = glm(X=X, Y=2 * yb - 1, yneg=-1, dfam=2, icpt=2, tol=1e-12, verbose=FALSE)", "1e-6",
    cbind(c(raw, coef(fit)[1] - sum(raw * attr(Z, "scaled:center"))), c(coef(fit)[-1], coef(fit)[1])))
fit <- glm(yb ~ X, family = binomial("probit"), control = tight)
row("x = glmPredict(X=X, B=glm(X=X, Y=yb, dfam=2, link=3, icpt=1, tol=1e-12, verbose=FALSE), dfam=2, link=3, verbose=FALSE)",
    "1e-6", cbind(fitted(fit), 1 - fitted(fit)))
said <- function(text, z, pearson, deviance, df, Y, E, V, counts, k, disp) {
    for (by in c(1, disp)) {
        P <- function(x) pchisq(x, df, lower.tail = FALSE)
        lines <- c(z / sqrt(by), 2 * pnorm(-abs(z / sqrt(by))), pearson / by, pearson / by / df, P(pearson / by),
                   deviance / by, deviance / by / df, P(deviance / by))
        text <- c(text, format(lines, digits = 12, trim = TRUE))
    }
    for (j in seq_len(ncol(Y))) {
        n <- sum(counts)
        R <- Y[, j] - E[, j]
        total <- sum((Y[, j] - counts * sum(Y[, j]) / n)^2)
        centred <- sum((R - counts * sum(R) / n)^2)
        text <- c(text, format(c(
            sum(Y[, j]) / n, sqrt(total / (n - 1)), sum(R) / n, sqrt(centred / (n - k)), sqrt(disp * sum(V[, j]) / n),
            1 - sum(R^2) / total, 1 - sum(R^2) / (n - k) / total * (n - 1),
            1 - centred / total, 1 - centred / (n - k) / total * (n - 1)), digits = 12, trim = TRUE))
    }
    cat('GY_SAID("', text[1], '", "', paste(text[-1], collapse = " "), '")\n', sep = "")
}
B <- c(0.5, -1, 0.7, 0.2) # not the best ones: residuals have a mean
eta <- c(cbind(X, 1) %*% B)
E <- exp(eta)
unit <- poisson()$dev.resids(c(yc), E, 1)
said("M = glmPredict(X=X, B=B, ytest=yc, dfam=1, vpow=1, disp=1.5)", NaN, sum((yc - E)^2 / E), sum(unit), 36,
     cbind(yc), cbind(E), cbind(E), rep(1, 40), 4, 1.5)
n <- c(yc) + 5
P <- cbind(plogis(eta), 1 - plogis(eta))
laws <- sapply(1:40, function(i) { k <- 0:n[i]; l <- k * log(P[i, 1]) + (n[i] - k) * log(P[i, 2])
                                   q <- dbinom(k, n[i], P[i, 1]); c(sum(q * l), sum(q * l^2) - sum(q * l)^2) })
z <- (sum(pairs * log(P)) - sum(laws[1, ])) / sqrt(sum(laws[2, ]))
said("M = glmPredict(X=X, B=B, ytest=cbind(yc, matrix(5, 40, 1)), dfam=2, disp=2)", z, sum((pairs - n * P)^2 / (n * P)),
     sum(binomial()$dev.resids(c(yc) / n, P[, 1], n)), 36, pairs, n * P, n * P * (1 - P), n, 4, 2)

K <- max(cl); N <- length(cl); Y <- outer(cl, 1:(K - 1), "==") * 1
logistic <- function(Z, reg) {
    p <- ncol(Z); l <- matrix(reg, p, K - 1); l[p, ] <- 0
    P <- function(B) { E <- exp(cbind(Z %*% B, 0)); E / rowSums(E) }
    f <- function(b) { B <- matrix(b, p); E <- Z %*% B
                       sum(log(rowSums(exp(cbind(E, 0))))) - sum(E * Y) + sum(l * B^2) / 2 }
    g <- function(b) { B <- matrix(b, p); c(t(Z) %*% (P(B)[, 1:(K - 1)] - Y) + l * B) }
    matrix(best(f, g, p * (K - 1)), p)
}
B <- logistic(cbind(X, 1), 0.1)
row("x = multiLogReg(X=X, Y=cl, icpt=1, reg=0.1, tol=1e-9, verbose=FALSE)", "1e-7", B)
E <- exp(cbind(cbind(X, 1) %*% B, 0))
row("x = glmPredict(X=X, B=multiLogReg(X=X, Y=cl, icpt=1, reg=0.1, tol=1e-9, verbose=FALSE), dfam=3, verbose=FALSE)",
    "1e-7", E / rowSums(E))
B <- logistic(cbind(Z, 1), 1)
U <- B; U[1:3, ] <- B[1:3, ] / attr(Z, "scaled:scale")
U[4, ] <- B[4, ] - attr(Z, "scaled:center") %*% U[1:3, ]
row("x = multiLogReg(X=X, Y=cl, icpt=2, reg=1, tol=1e-9, verbose=FALSE)", "1e-7", U)

svm <- function(Z, v, reg) {
    f <- function(b) sum(pmax(1 - v * (Z %*% b), 0)^2) / 2 + reg * sum(b^2) / 2
    g <- function(b) c(-t(Z) %*% (pmax(1 - v * (Z %*% b), 0) * v) + reg * b)
    best(f, g, ncol(Z))
}
row("x = l2svm(X=X, Y=2 * yb - 1, epsilon=1e-14, reg=0.7)", "1e-6", svm(X, 2 * yb - 1, 0.7))
row("x = l2svm(X=X, Y=1 + yb, intercept=TRUE, epsilon=1e-14)", "1e-6", svm(cbind(X, 1), 2 * yb - 1, 1))
row("x = msvm(X=X, Y=cl, intercept=TRUE, epsilon=1e-14)", "1e-6",
    sapply(1:K, function(k) svm(cbind(X, 1), 2 * (cl == k) - 1, 1)))

G <- 10 * cbind(cos(s %% 3 * 2), sin(s %% 3 * 2)) + X[, 1:2] # three heaps apart from each other
groups <- t(sapply(c(0, 1, 2), function(k) colMeans(G[s %% 3 == k, ])))
row("[C, Y] = kmeans(X=G, k=3, runs=3, seed=5); x = order(target=C, by=1)", "1e-9",
    groups[order(groups[, 1]), ])
row("[C, Y] = kmeans(X=G, k=3, runs=3, seed=5); x = sum((G - table(seq(1, 40), Y) %*% C)^2)", "1e-8",
    sum(kmeans(G, groups)$withinss))

for (flag in c(TRUE, FALSE)) {
    p <- prcomp(X, center = TRUE, scale. = flag)
    text <- sprintf("[R, C, m, v] = pca(X=X, K=2, scale=%s)", flag)
    row(paste0(text, "; x = abs(C)"), "1e-9", abs(p$rotation[, 1:2]))
    row(paste0(text, "; x = sum(R[, 1]^2) / 39"), "1e-9", p$sdev[1]^2)
}
row("[Z, m, v] = scale(X); x = rbind(m, v)", "1e-12",
    rbind(attr(Z, "scaled:center"), attr(Z, "scaled:scale")))
row("[Z, m, v] = scale(X); x = Z", "1e-12", unclass(Z)[1:40, ])
row("[Z, m, v] = scale(X, TRUE, FALSE); x = colSums(abs(Z)) + nrow(v)", "1e-11",
    colSums(abs(scale(X, TRUE, FALSE))))
row("[Z, a, b] = normalize(X); x = rbind(a, b, Z)", "1e-12",
    rbind(apply(X, 2, min), apply(X, 2, max),
          apply(X, 2, function(c) (c - min(c)) / (max(c) - min(c)))))
row("x = toOneHot(cl, 4)", "0", outer(cl, 1:4, "==") * 1)
T <- table(factor(pmax(cl - yb, 1), 1:3), factor(cl, 1:3))
row("[x, r] = confusionMatrix(max(cl - yb, 1), cl)", "0", T)
row("[r, x] = confusionMatrix(max(cl - yb, 1), cl)", "1e-12", T / rep(pmax(colSums(T), 1), each = 3))
D <- round(abs(10 * X)); counts <- rowsum(D, cl) + 1
row("[p, x] = naiveBayes(D=round(abs(10 * X)), C=cl, verbose=FALSE)", "1e-12", counts / rowSums(counts))
row("[x, c] = naiveBayes(D=round(abs(10 * X)), C=cl, verbose=FALSE)", "1e-12", c(table(cl) / N))
