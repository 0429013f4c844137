package policy

import "path/filepath"

// TrustIn is the record of the files that the user trusts, in a bridge's home.
func TrustIn(home string) Trust { return Trust{Path: filepath.Join(home, TrustFile)} }

// LoadTrusted reads the policy file of a workspace, nil if it has none, and says
// whether the user trusts it.
func LoadTrusted(home, root string) (file *File, trusted bool, err error) {
	if file, err = LoadWorkspace(root); err != nil || file == nil {
		return nil, false, err
	}
	trusted, err = TrustIn(home).Trusted(file.Path, file.Data)
	return file, trusted, err
}

// InForce are the policy files in force, and what to call them on record: the
// user's own, and the workspace's, of which only the restrictions count until
// the user has trusted it. untrusted is its path then.
func InForce(home, root string) (layers []Layer, sources []string, untrusted string, err error) {
	user, err := LoadUser(home)
	if err != nil {
		return nil, nil, "", err
	}
	if user != nil {
		layers, sources = append(layers, user.Layer(true)), append(sources, user.Path)
	}
	local, trusted, err := LoadTrusted(home, root)
	if err != nil {
		return nil, nil, "", err
	}
	if local == nil {
		return layers, sources, "", nil
	}
	source := local.Path
	if !trusted {
		source, untrusted = source+" (not trusted: restrictions only)", local.Path
	}
	return append(layers, local.Layer(trusted)), append(sources, source), untrusted, nil
}
