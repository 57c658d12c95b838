"""CUDA's compiler by ctypes, with the names that ``cupy.cuda.nvrtc`` gives it: compiling needs no GPU."""

from __future__ import annotations

import ctypes
import importlib.util
from pathlib import Path


class NVRTCError(RuntimeError):
    pass


def find():
    """The library that a wheel of NVIDIA's brings, or that the system has; None without one."""
    spec = importlib.util.find_spec("nvidia")
    folders = [Path(folder) for folder in spec.submodule_search_locations] if spec is not None else []
    wheels = [found for folder in folders for found in sorted(folder.glob("*/lib*/libnvrtc.so.*"))]
    wheels = [found for found in wheels if ".alt." not in found.name and found.name.count(".") == 2]
    for name in [*wheels, "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"]:
        try:
            return ctypes.CDLL(str(name))
        except OSError:
            continue
    return None


class Nvrtc:
    """Programs are plain handles here."""

    def __init__(self, library):
        self._library = library

    def _call(self, name, *arguments):
        status = getattr(self._library, name)(*arguments)
        if status:
            raise NVRTCError(f"{name} answers {status}")

    def getVersion(self):
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._call("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
        return major.value, minor.value

    def getSupportedArchs(self):
        count = ctypes.c_int()
        self._call("nvrtcGetNumSupportedArchs", ctypes.byref(count))
        archs = (ctypes.c_int * count.value)()
        self._call("nvrtcGetSupportedArchs", archs)
        return list(archs)

    def createProgram(self, source, name, headers, include_names):
        assert not headers
        assert not include_names
        program = ctypes.c_void_p()
        self._call("nvrtcCreateProgram", ctypes.byref(program), source.encode(), name.encode(), 0, None, None)
        return program

    def addNameExpression(self, program, expression):
        self._call("nvrtcAddNameExpression", program, expression.encode())

    def compileProgram(self, program, options):
        given = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
        self._call("nvrtcCompileProgram", program, len(options), given)

    def _read(self, what, program):
        size = ctypes.c_size_t()
        self._call(f"nvrtcGet{what}Size", program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        self._call(f"nvrtcGet{what}", program, buffer)
        return buffer.raw

    def getCUBIN(self, program):
        return self._read("CUBIN", program)

    def getPTX(self, program):
        return self._read("PTX", program)

    def getProgramLog(self, program):
        return self._read("ProgramLog", program).rstrip(b"\0").decode()

    def getLoweredName(self, program, expression):
        name = ctypes.c_char_p()
        self._call("nvrtcGetLoweredName", program, expression.encode(), ctypes.byref(name))
        return name.value.decode()

    def destroyProgram(self, program):
        self._call("nvrtcDestroyProgram", ctypes.byref(program))
