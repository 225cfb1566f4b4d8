package tidy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const module = "github.com/tidemark-io/tidemark"

// file is one Go file of the module, parsed.
type file struct {
	path      string // from the module's root, with slashes
	dir       string
	test      bool
	generated bool
	lines     int
	text      string
	fset      *token.FileSet
	tree      *ast.File
}

// root finds the module's root above the test's working directory.
func root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fs.ErrNotExist
		}
		dir = parent
	}
}

// skipDir names folders that are not source: hidden ones, data, and testdata.
func skipDir(name string) bool {
	return name == "testdata" || name == "data" || name == "node_modules" || name == "bin" || strings.HasPrefix(name, ".") && name != "."
}

// load parses every Go file of the main module. Nested modules (tools/) are
// not part of it.
func load(base string) ([]*file, error) {
	var files []*file
	err := filepath.WalkDir(base, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if path != base && (skipDir(d.Name()) || nested(path)) {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		f, err := parse(base, path)
		if err == nil {
			files = append(files, f)
		}
		return err
	})
	return files, err
}

func nested(path string) bool {
	_, err := os.Stat(filepath.Join(path, "go.mod"))
	return err == nil
}

func parse(base, path string) (*file, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	rel, err := filepath.Rel(base, path)
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	// A file that does not parse is the compiler's business: go on with what there is.
	tree, err := parser.ParseFile(fset, path, text, parser.ParseComments|parser.SkipObjectResolution)
	if tree == nil {
		return nil, err
	}
	rel = filepath.ToSlash(rel)
	return &file{
		path: rel, dir: filepath.ToSlash(filepath.Dir(rel)), test: strings.HasSuffix(rel, "_test.go"),
		generated: ast.IsGenerated(tree), lines: strings.Count(string(text), "\n"), text: string(text), fset: fset, tree: tree,
	}, nil
}

// imports lists the import paths of a file.
func (f *file) imports() []string {
	var out []string
	for _, i := range f.tree.Imports {
		out = append(out, strings.Trim(i.Path.Value, `"`))
	}
	return out
}

// line is the line number of a node.
func (f *file) line(n ast.Node) int { return f.fset.Position(n.Pos()).Line }
