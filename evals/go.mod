// Keeps the Go files of the cases out of Assay's own module: fixtures are broken on purpose, and hidden tests only
// compile inside the tree that they are laid over.
module github.com/assay-ci/assay/evals

go 1.26
