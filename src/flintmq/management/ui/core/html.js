// One place to import the views' library from. Text that comes from anywhere is always a child or an attribute of `html`,
// which escapes it.
export {
  html, render, createContext, useCallback, useContext, useEffect, useLayoutEffect, useMemo, useRef, useState,
} from "../vendor/preact-htm.module.js";
