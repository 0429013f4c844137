package paths

import "strings"

// keyKind is what the name of an argument says about its value.
type keyKind int

const (
	otherKey   keyKind = iota
	pathKey            // a path
	roleKey            // a path unless it is clearly a URL or a text: from, to, source
	patchKey           // a patch, which names files
	patternKey         // a glob or a regular expression
	textKey            // content, prompts, commands: never a path itself
)

// kindOf reads key without regard to case and to how its words are joined.
func kindOf(key string) keyKind {
	if key == "" {
		return otherKey
	}
	joined, last := words(key)
	if kind, ok := keys[joined]; ok {
		return kind
	}
	// sourcePath, notebook_path, absolute-file, repoDir
	if last != joined && pathWords[last] {
		return pathKey
	}
	return otherKey
}

// words returns key in lower case without separators, and its last word.
func words(key string) (joined, last string) {
	var all, word strings.Builder
	upper := true
	for i := range len(key) {
		c := key[i]
		isUpper := c >= 'A' && c <= 'Z'
		if c == '_' || c == '-' || c == ' ' || c == '.' {
			word.Reset()
			upper = false
			continue
		}
		if isUpper && !upper {
			word.Reset()
		}
		upper = isUpper
		if isUpper {
			c += 'a' - 'A'
		}
		all.WriteByte(c)
		word.WriteByte(c)
	}
	return all.String(), word.String()
}

var pathWords = map[string]bool{
	"path": true, "paths": true, "file": true, "files": true, "filename": true, "filenames": true, "filepath": true, "filepaths": true,
	"dir": true, "dirs": true, "directory": true, "directories": true, "folder": true, "folders": true, "cwd": true,
}

var keys = func() map[string]keyKind {
	m := map[string]keyKind{}
	for kind, names := range map[keyKind]string{
		pathKey: `path paths file files filepath filepaths filename filenames directory directories dir dirs folder folders
			outputpath inputpath outfile infile
			cwd workingdirectory workingdir workdir workspace workspaceroot projectroot basedir basepath rootdir rootpath root roots
			oldpath newpath oldfile newfile`,
		roleKey: `destination destinations target targets from to src source sources dest dst origin uri uris rooturi documenturi resource location
			oldname newname symlink link linkname mount`,
		patchKey: `patch patches diff diffs unifieddiff patchtext gitdiff`,
		patternKey: `pattern patterns glob globs include includes exclude excludes includepattern excludepattern fileglob filepattern
			globpattern ignore`,
		textKey: `filetext oldstr newstr oldstring newstring oldtext newtext content contents text prompt description message messages
			body query question title summary instructions explanation reason thought code snippet intention note notes markdown html
			command cmd script shell commandline fullcommandtext regex regexp search replace replacement
			data blob base64 image url urls href`,
	} {
		for _, n := range strings.Fields(names) {
			m[n] = kind
		}
	}
	return m
}()
