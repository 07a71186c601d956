package sandbox

import (
	"path"
	"time"
)

// NodeParams are the settings of the environment node.
type NodeParams struct {
	Dir     string        `yaml:"dir" doc:"folder of the source that holds package.json and its lock file" default:"." rule:"path"`
	Scripts bool          `yaml:"scripts" doc:"also run the install scripts of packages, which may do anything"`
	Inputs  []string      `yaml:"inputs" doc:"further files and folders of the source that package.json names, such as workspaces and tarballs" rule:"path"`
	Timeout time.Duration `yaml:"timeout" doc:"of the whole step" default:"15m" rule:"above=0s"`
}

func buildNode(s Settings) (*Environment, error) {
	var p NodeParams
	if err := s.Decode(&p); err != nil {
		return nil, err
	}
	ci := "npm ci --no-audit --no-fund --no-update-notifier"
	if !p.Scripts {
		ci += " --ignore-scripts"
	}
	in := func(name string) string { return path.Join(p.Dir, name) }
	return &Environment{
		path: "{env}/node_modules/.bin", modules: path.Clean(p.Dir), tool: "npm ci", timeout: p.Timeout,
		look:     `node -p 'JSON.stringify([process.versions.node, process.versions.modules, process.platform, process.arch])' && npm --version`,
		inputs:   append(p.Inputs, in("package.json")),
		optional: []string{in("package-lock.json"), in("npm-shrinkwrap.json"), in(".npmrc")},
		run: []string{"set -eu\ncd " + shellWord("./"+p.Dir) + "\n" + ci + `
mkdir -p node_modules
mv node_modules {env}/node_modules`},
	}, nil
}
