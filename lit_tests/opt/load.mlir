// RUN: cd %S/Inputs && jaxmlir-opt %s --load rename_pass --rename-function='to=renamed' | FileCheck %s
// RUN: cd %S/Inputs && jaxmlir-opt --load=rename_pass --list-passes | FileCheck %s --check-prefix=LIST
// RUN: cd %S/Inputs && not jaxmlir-opt %s --load rename_pass --rename-function='to=crash' 2>&1 | FileCheck %s --check-prefix=CRASH
// RUN: cd %S/Inputs && not jaxmlir-opt %s --load rename_pass --rename-function 2>&1 | FileCheck %s --check-prefix=NEEDS

// A user's own pass, from a module in the current directory.

// CHECK: func.func public @renamed
// LIST: Passes of loaded modules and installed packages:
// LIST: --rename-function                  - Rename the public function
// CRASH: Traceback
// CRASH: load.mlir: error: pass 'rename-function' crashed: RuntimeError: asked for
// NEEDS: error: pass 'rename-function' needs the option 'to' (str)
func.func public @f() {
  return
}
